"""Run the command, as ``rarecell`` or as ``python -m rarecell``."""

from rarecell.cli.commands import main as command
from rarecell.machine.signals import run_and_leave


def main() -> None:
    """Run one command and end the process."""
    run_and_leave(command)


if __name__ == "__main__":
    main()
