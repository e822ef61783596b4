"""Progress bars of commands that can take long."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


def bar(*columns: ProgressColumn) -> Progress:
    """Return a progress bar on standard error. It is shown only on a terminal."""
    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


@contextmanager
def byte_progress(name: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar with rate and remaining time in a ``with`` block.

    Yield the function that updates the bar. Its arguments are the number of bytes processed and the total.
    """
    columns = TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with bar(*columns) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
