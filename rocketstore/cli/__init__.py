"""The ``rocketstore`` command. One module a command."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, and exit."""
    try:
        from rocketstore.cli.group import rocketstore

        rocketstore(prog_name="rocketstore")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("click", "rich"):
            raise
        print(f"Error: {error.name} is missing: pip install rocketstore[cli]", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # while modules were imported or arguments read
        sys.exit(130)
