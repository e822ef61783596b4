"""Complete commands and options in a shell from a table. The commands themselves import NumPy, which takes too long.

``.ci/completion_table.py`` writes the table. Values of options and arguments are completed by the commands.
"""

import json
from pathlib import Path
from typing import Any

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

__all__ = ["use_table"]


class TableComplete(ShellComplete):
    """Complete commands and options from the table, and all else as click does."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        command: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
        words = list(args)
        while words and words[0] in command["commands"]:
            command = command["commands"][words.pop(0)]
        if incomplete.startswith("-") and "=" not in incomplete and "--" not in words:
            return options_of(command, words, incomplete)
        if command["commands"] and not words:
            return [
                CompletionItem(name, help=inner["help"])
                for name, inner in command["commands"].items()
                if name.startswith(incomplete)
            ]
        return super().get_completions(args, incomplete)


def options_of(command: dict[str, Any], words: list[str], incomplete: str) -> list[CompletionItem]:
    """Return the options that begin with a text and may still be given. Parameters: words: after the command."""
    return [
        CompletionItem(name, help=option["help"])
        for option in command["options"]
        if option["repeats"] or not {*option["names"]} & {*words}
        for name in option["names"]
        if name.startswith(incomplete)
    ]


def use_table() -> None:
    """Let click complete from the table in all shells."""
    for shell in (BashComplete, ZshComplete, FishComplete):
        add_completion_class(type(shell.__name__, (TableComplete, shell), {}), shell.name)
