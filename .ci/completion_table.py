"""Write rocketstore/cli/completion_table.json: the commands and options that a shell completes."""

import json
from pathlib import Path
from typing import Any

import click

from rocketstore.cli.group import rocketstore

PATH = Path(__file__).parent.parent / "rocketstore/cli/completion_table.json"


def row(command: click.Command, context: click.Context, text: str | None) -> dict[str, Any]:
    """Return the help, the options and the commands of a command."""
    options = [
        parameter
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option) and not parameter.hidden
    ]
    commands: dict[str, Any] = {}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            commands[name] = row(inner, click.Context(inner, context, name), inner.get_short_help_str())
    return {
        "help": text,
        "options": [
            {"names": [*option.opts, *option.secondary_opts], "help": option.help, "repeats": option.multiple}
            for option in options
        ],
        "commands": commands,
    }


def table_text() -> str:
    """Return the table of all commands as JSON."""
    table = row(rocketstore, click.Context(rocketstore, info_name="rocketstore", **rocketstore.context_settings), None)
    return json.dumps(table, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PATH.write_text(table_text(), encoding="utf-8")
