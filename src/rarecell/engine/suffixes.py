"""Which kinds of files are read, judging by the endings of their names?"""

from __future__ import annotations

TEXT_SUFFIXES = (".csv", ".tsv", ".tab", ".txt")
PARQUET_SUFFIXES = (".parquet", ".pq", ".parq")
ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")
STATISTICS_SUFFIXES = (".dta", ".sav", ".zsav", ".sas7bdat", ".xpt")
WORKBOOK_SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
PART_SUFFIXES = {"Parquet": PARQUET_SUFFIXES, "CSV": (".csv", ".tsv", ".csv.gz", ".tsv.gz")}
"""Kinds of files that a folder of parts can consist of."""

DATA_SUFFIXES = (*TEXT_SUFFIXES, ".gz", *PARQUET_SUFFIXES, *ARROW_SUFFIXES, *STATISTICS_SUFFIXES, *WORKBOOK_SUFFIXES)
"""Endings of the names of data files; ``.gz`` is compressed text."""

FORMATS = (
    "CSV or TSV (also .gz), Parquet, Arrow or Feather, Excel .xlsx and .xls, OpenDocument .ods, Stata .dta, SPSS .sav or .zsav, "
    "SAS .sas7bdat or .xpt"
)
