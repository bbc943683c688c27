"""Run the command, as ``rarecell`` or as ``python -m rarecell``."""

from rarecell.machine.signals import run_and_leave


def main() -> None:
    """Run one command and end the process."""
    run_and_leave(_command)


def _command() -> None:
    # Loaded here, so that Ctrl-C while it is loaded ends as it does later.
    from rarecell.cli.commands import main as command

    command()


if __name__ == "__main__":
    main()
