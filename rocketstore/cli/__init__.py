"""The ``rocketstore`` command. One module a command."""

import io
import logging
import os
import signal
import sys
import warnings

__all__ = ["INTERRUPTED", "NO_READER", "main", "prepare_streams"]

INTERRUPTED, NO_READER = 130, 141  # what shells give for a process that SIGINT or SIGPIPE ended


def prepare_streams() -> None:
    """Make standard output, standard error, logging and warnings ready for a command."""
    if sys.stdout is None:  # its descriptor is free, and the next file of the store would get it
        sys.exit("Error: standard output is closed: > /dev/null is one that is not")
    if sys.stderr is None:  # its descriptor is free too
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    # Programs get UTF-8 in every locale. A terminal that cannot show a character shows its escape.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding=None if sys.stdout.isatty() else "utf-8", errors="backslashreplace")
    if logging.lastResort is not None:
        logging.getLogger("rocketstore").addHandler(logging.lastResort)  # warnings, to standard error
    warnings.filterwarnings("ignore", module="rocketstore")  # the package logs its warnings too


def main() -> None:
    """Run the command line, and exit."""
    prepare_streams()
    try:
        from rocketstore.cli.group import rocketstore

        rocketstore(prog_name="rocketstore")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("click", "rich"):
            raise
        print(f"Error: {error.name} is missing: pip install rocketstore[cli]", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # before a command began, or after it ended
        sys.exit(INTERRUPTED)
    except OSError as error:  # of completion
        sys.exit(f"Error: {error.strerror}")
    finally:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own end would show a traceback
