"""Run the command as ``python -m rarecell``."""

from rarecell.cli.commands import main

main()
