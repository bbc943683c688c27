"""The command: its commands, the options they share, and what a person at a terminal sees."""

import atexit
import gc

from rarecell.cli.commands import main as main

# What is left at the end of a command is given back by the system. Looking for rings among it takes half a second.
atexit.register(gc.freeze)
