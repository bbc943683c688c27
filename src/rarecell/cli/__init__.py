"""The command line: its commands, the options they share, and what a person at a terminal sees."""

from rarecell.cli.commands import main as main
