"""Queries of files and of DuckDB, SQLite and PostgreSQL databases."""
