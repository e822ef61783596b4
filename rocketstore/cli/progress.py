"""The bar of a command that goes over the bytes of a log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

__all__ = ["byte_progress"]


@contextmanager
def byte_progress(name: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal, with rate and time left, and give what is told the bytes done, and all."""
    console = Console(stderr=True)
    columns = TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
