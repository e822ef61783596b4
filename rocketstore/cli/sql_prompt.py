"""A prompt for statements of SQL, with completion and with a history that is kept in a file."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import FileHistory

from rocketstore.cli.columns import MESSAGES
from rocketstore.cli.text import note
from rocketstore.sql.statement import SqlTable

WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY ALL", "ORDER BY", "LIMIT", "JOIN", "USING", "EXPLAIN", "DESC", "AS", "AND",
    "OR", "NOT", "IN", "LIKE", "BETWEEN", "IS NULL", "count(*)", "sum(", "min(", "max(", "body_text", "body_json->>'",
)  # fmt: skip


def ask(tables: Mapping[str, SqlTable]) -> Iterator[str]:
    """Yield the statements that a user types, one a line, until the end of input or "exit".

    Parameters: tables: the tables that are completed.
    """
    completer = WordCompleter([*tables, *MESSAGES, *WORDS], ignore_case=True)
    session: PromptSession[str] = PromptSession(history=FileHistory(history_path()), completer=completer)
    note(f"One SELECT a line. The tables are {', '.join(tables)}. Ctrl-D ends.")
    while True:
        try:
            statement = session.prompt("rocketstore> ").strip()
        except KeyboardInterrupt:  # leaves out the line that was begun
            continue
        except EOFError:
            return
        if statement.lower().rstrip(";") in ("exit", "quit"):
            return
        if statement:
            yield statement


def history_path() -> str:
    """Return the path of the history, in a directory that exists."""
    directory = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "rocketstore"
    directory.mkdir(parents=True, exist_ok=True)
    return str(directory / "sql_history")
