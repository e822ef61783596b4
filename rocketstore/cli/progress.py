"""Progress bars of commands that can take long."""

from rich.console import Console
from rich.progress import (
    Progress,
    ProgressColumn,
)


def bar(*columns: ProgressColumn) -> Progress:
    """Return a progress bar on standard error. It is shown only on a terminal."""
    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
