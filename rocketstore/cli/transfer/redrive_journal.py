"""The journal of messages that were imported to be consumed again. It keeps each from being imported twice.

The file is in the directory ``config`` of the target. An import writes a line when it begins, a line for each message,
and a line when it is done. A message also has its origin as a property. So messages of an import that was killed before
it wrote their lines are found in the log.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, cast

from rocketstore.disk.durable import sync, sync_path
from rocketstore.disk.storage import local_path
from rocketstore.errors import CorruptFileError, StoreError
from rocketstore.messages.redrive import ORIGIN
from rocketstore.store.message_store import MessageStore

JOURNAL = "rocketstore-redrive.jsonl"  # in config/
COLUMNS = "properties", "phy_offset", "size"
BEGIN, DONE = "begin", "done"
Line = dict[str, Any]  # end: the physical offset after all messages so far, bytes; and either stage or origin


class RedriveJournal:
    """The origins of the messages that a store has from earlier imports."""

    def __init__(self, store: MessageStore, path: Path, lines: Sequence[Line]) -> None:
        self.store = store
        self.path = path
        self.origins = {line["origin"] for line in lines if "origin" in line}
        self.end = max((line["end"] for line in lines), default=0)

    @classmethod
    def open(cls, store: MessageStore) -> Self:
        """Read the journal of a store, or make it, and complete it. Raises: CorruptFileError, StoreError, OSError."""
        path = local_path(store.places.config_file(JOURNAL))
        size, lines = read_lines(path)
        journal = cls(store, path, lines)
        end = store.commit_log.max_phy_offset
        if journal.end > end:
            raise StoreError(
                f"{path}: has a message before the physical offset {journal.end}, but the log ends at {end}: it is the "
                "journal of another log; move it away to import again"
            )
        cut_file(path, size)
        if lines and lines[-1].get("stage") != DONE:
            journal.save()
        else:
            journal.write([{"end": end, "stage": BEGIN}])
        return journal

    def save(self) -> None:
        """Bring the messages to the disk, and then write their lines."""
        self.store.flush()
        self.write(self.find_unwritten())

    def finish(self) -> None:
        """Note that the journal has all messages."""
        self.write([{"end": self.store.commit_log.max_phy_offset, "stage": DONE}])

    def find_unwritten(self) -> list[Line]:
        """Return a line for each message behind the end of the journal with a new origin."""
        begin = max(self.end, self.store.commit_log.min_phy_offset)
        found = (message for batch in self.store.scan(begin_offset=begin, columns=COLUMNS) for message in batch)
        lines = {
            origin: {"end": message.phy_offset + message.size, "origin": origin}
            for message in found
            if (origin := message.properties.get(ORIGIN)) is not None and origin not in self.origins
        }
        return list(lines.values())

    def write(self, lines: Sequence[Line]) -> None:
        """Append lines, and bring them to the disk."""
        with self.path.open("ab") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines).encode())
            file.flush()
            sync(file.fileno())
        self.origins.update(line["origin"] for line in lines if "origin" in line)
        self.end = max([self.end, *(line["end"] for line in lines)])


def cut_file(path: Path, size: int) -> None:
    """Cut a file behind its first bytes, or make it. Parameters: size: of these bytes."""
    with path.open("ab") as file:
        file.truncate(size)
    sync_path(path.parent)


def read_lines(path: Path) -> tuple[int, list[Line]]:
    """Return the size of the complete lines of a journal, bytes, and the lines. Raises: CorruptFileError."""
    data = path.read_bytes() if path.exists() else b""
    size = data.rfind(b"\n") + 1  # a kill may leave a part of the last line
    lines = []
    place = 0
    for text in data[:size].splitlines(keepends=True):
        lines.append(parse_line(path, place, text))
        place += len(text)
    return size, lines


def parse_line(path: Path, place: int, text: bytes) -> Line:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        line = None
    if not is_line(line):
        hint = "restore it; without it, messages would be imported twice"
        raise CorruptFileError(path, place, "line", f"is not what import writes: {hint}")
    return cast("Line", line)


def is_line(line: object) -> bool:
    """Return whether a value is a line of a journal."""
    if not isinstance(line, dict) or type(line.get("end")) is not int or line["end"] < 0:
        return False
    return line.get("stage") in (BEGIN, DONE) if "stage" in line else isinstance(line.get("origin"), str)
