"""Parquet and Arrow files, one file or a folder of parts."""
