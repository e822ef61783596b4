"""The progress of functions that can take long: reported to a function of the caller, or shown as a bar."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

Report: TypeAlias = Callable[[int, int], object]  # is called with what is done, and the total
OffsetReport: TypeAlias = Callable[[int], object]  # is called with the physical offset that was reached
# The argument ``progress`` of public functions. False reports nothing. True shows a bar on standard error, if that is a
# terminal or a notebook. A function is called with what is done and the total, in the unit that each function says.
Progress: TypeAlias = bool | Report

FORCING = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})  # variables by which rich takes any stream for a terminal


@contextmanager
def show_progress(progress: Progress, name: str) -> Iterator[Report]:
    """Yield the function that a job of a ``with`` block calls with the bytes that are done, and all bytes.

    Parameters: progress: the argument of a public function. name: of the job, for the bar.
    Raises: TypeError for another argument.
    """
    shown = checked_progress(progress)
    if not isinstance(shown, bool):
        yield shown
    elif shown:
        with show_bar(name) as report:
            yield report
    else:
        yield report_nothing


def checked_progress(progress: Progress) -> Progress:
    """Return the argument of a public function. Raises: TypeError for another one."""
    if not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress={progress!r:.80}: a function was expected, or True for a bar")
    return progress


def report_nothing(done: int, total: int) -> None:
    """Ignore the progress."""


def ignore_offset(phy_offset: int) -> None:
    """Ignore the physical offset that a walk through the log reached."""


def may_show_bar() -> bool:
    """Return whether rich may show a bar: on a terminal, in a notebook, or if the environment asks for it.

    Rich decides in the end. It takes long to import, and most programs in pipelines have no terminal.
    """
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return is_terminal or "IPython" in sys.modules or not FORCING.isdisjoint(os.environ)


@contextmanager
def show_bar(name: str) -> Iterator[Report]:
    """Show a bar of rich with rate and remaining time in a ``with`` block; a line of text if rich is not installed."""
    if not may_show_bar():
        yield report_nothing
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
        from rich.progress import Progress as Bar
    except ModuleNotFoundError:
        with show_line(name, sys.stderr) as report:
            yield report
        return
    console = Console(stderr=True)
    is_shown = console.is_terminal or console.is_jupyter
    columns = TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with Bar(*columns, console=console, disable=not is_shown, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def show_line(name: str, stream: Any) -> Iterator[Report]:
    """Show a line of text with a percentage in a ``with`` block, and remove it at the end.

    Parameters: stream: to which the line is written, if it is a terminal.
    """
    if not stream.isatty():
        yield report_nothing
        return
    shown = ""

    def report(done: int, total: int) -> None:
        nonlocal shown
        text = f"{name}: {100 * done // max(total, 1)} %"
        if text != shown:
            stream.write(f"\r{text}")
            stream.flush()
            shown = text

    try:
        yield report
    finally:
        stream.write(f"\r{' ' * len(shown)}\r")
        stream.flush()
