"""The ``rocketstore`` command. One module a command."""

import io
import logging
import os
import signal
import sys
import warnings

__all__ = ["main"]

INTERRUPTED, NO_READER = 130, 141  # what shells give for a process that SIGINT or SIGPIPE ended


def main() -> None:
    """Run the command line, and exit."""
    if sys.stdout is None:  # its descriptor is free then, for a file of the store to get
        sys.exit("Error: standard output is closed: > /dev/null is one that is not")
    if sys.stderr is None:  # so is its own
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    # Programs get UTF-8 whatever the locale; a terminal that has not a character gets its escape.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding=None if sys.stdout.isatty() else "utf-8", errors="backslashreplace")
    if logging.lastResort is not None:
        logging.getLogger("rocketstore").addHandler(logging.lastResort)  # warnings, to standard error
    warnings.filterwarnings("ignore", module="rocketstore")  # which are logged, too
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
