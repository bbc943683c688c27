"""Run the command as ``python -m rarecell``."""

from rarecell.cli import main

main()
