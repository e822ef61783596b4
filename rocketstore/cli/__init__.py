"""The ``rocketstore`` command line.

One module of ``commands`` has the options of each command. It imports little, since a shell completes options with it.
The command imports its other module when it runs. That module calls the package, and prints rows, notes and errors.
This room needs click and rich.
"""

import gc
import io
import os
import signal
import sys
import warnings

INTERRUPTED, NO_READER = 130, 141  # the exit statuses that shells report after SIGINT and SIGPIPE
YOUNG_OBJECTS = 100_000  # Python looks for garbage after so many new objects, not 700: imports make no garbage


def prepare_streams() -> None:
    """Make standard output, standard error and warnings ready for a command."""
    # A closed stream leaves its descriptor free. The next file of the store would get it, and also the output.
    if sys.stdout is None:
        sys.exit("Error: standard output is closed. To discard the output, use > /dev/null.")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    # Pipes and files get UTF-8 in every locale. A terminal that cannot show a character gets its escape sequence.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding=None if sys.stdout.isatty() else "utf-8", errors="backslashreplace")
    warnings.filterwarnings("ignore", module="rocketstore")  # the package also logs each of its warnings


PACKAGES = "click", "prompt_toolkit", "rich"  # of the extra "cli"


def is_of_cli_extra(error: BaseException) -> bool:
    """Return whether an error says that a package of the extra "cli" is missing."""
    return isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in PACKAGES


def main() -> None:
    """Run the command line, and exit."""
    # NumPy's linear algebra, which no command uses, starts threads that spin for 60 ms of CPU time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    prepare_streams()
    try:
        from rocketstore.cli.group import rocketstore

        rocketstore(prog_name="rocketstore")
    except ModuleNotFoundError as error:
        if not is_of_cli_extra(error):
            raise
        print(f'Error: {error.name} is missing: pip install "rocketstore[cli]"', file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # before the command began, or after it ended
        sys.exit(INTERRUPTED)
    except OSError as error:  # from shell completion
        sys.exit(f"Error: {error.strerror}")
    finally:
        gc.freeze()  # Python looks through all other objects for garbage when it exits
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while Python exits would print a traceback
