"""What ``rocketstore`` runs: beside the package, since Ctrl-C is to be quiet while the package itself is imported."""

import signal

__all__ = ["main"]


def main() -> None:
    """Run the command line, and exit. Before and after a command Ctrl-C just ends the process."""
    be_quiet()
    from rocketstore.cli import main

    try:
        main()
    finally:
        be_quiet()


def be_quiet() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # nobody has it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
