"""Delimited text in any encoding, one file or a folder of parts."""
