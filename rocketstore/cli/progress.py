"""The bars of commands that take long."""

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

__all__ = ["bar", "byte_progress"]


def bar(*columns: ProgressColumn) -> Progress:
    """Make a bar on standard error, which only a terminal shows."""
    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


@contextmanager
def byte_progress(name: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal, with rate and time left, and give what is told the bytes done, and all."""
    columns = TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with bar(*columns) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
