"""CopyReport: the result of a copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rocketstore.disk.store_path import StorePath
from rocketstore.kernels.message_columns import Field
from rocketstore.messages.arrow_stream import ArrowStream
from rocketstore.messages.rows import export_rows
from rocketstore.preview import WIDE_CELL, Preview, Previewed, first_of
from rocketstore.text_values import format_count


class CopiedPart(NamedTuple):
    """A part of the new store: "commitlog", "consumequeue", "index", "config" and so on.

    Attributes: files: their number. size: of the files, bytes. written: how many of the files were written; the others
    were unchanged since the copy before.

    Examples:
    >>> rocketstore.copy("demo", "demo-copy").parts[3]
    CopiedPart(part='consumequeue', files=2, size=12000000, written=2)
    """

    part: str
    files: int
    size: int
    written: int


COPIED_FIELDS = Field("part", "u"), Field("files", "l"), Field("size", "l"), Field("written", "l")


@dataclass(frozen=True, repr=False)
class CopyReport(Previewed, ArrowStream):
    """The result of a copy. ``to_arrow``, ``to_pandas`` and ``to_polars`` make a table of the parts.

    Attributes: path, new: the roots of the two stores. min_phy_offset, max_phy_offset: where the log of the copy begins
    and ends, bytes. messages: how many messages of queues ``diff`` compared. parts: with the numbers of files.
    limited_offsets: how many offsets of consumers and delay levels were lowered to the end of their queue. left_out:
    paths in ``config`` that may have credentials, and were not copied. notes: further lines for people.

    Examples:
    >>> report = rocketstore.copy("demo", "copied")
    >>> report.messages, report.left_out
    (101, ())
    """

    path: StorePath
    new: StorePath
    min_phy_offset: int
    max_phy_offset: int
    messages: int
    parts: tuple[CopiedPart, ...]
    limited_offsets: int
    left_out: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def _preview(self) -> Preview:
        files = format_count(sum(part.files for part in self.parts), "file")
        title = (
            f"CopyReport: {files} in {str(self.new)!r}, log from {self.min_phy_offset:,} to {self.max_phy_offset:,}, "
            f"{format_count(self.messages, 'message')} of queues compared"
        )
        return Preview(title, CopiedPart._fields, first_of(self.parts), self.notes, width=WIDE_CELL)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the parts as an Arrow stream."""
        return export_rows(COPIED_FIELDS, self.parts)


class CopiedFile(NamedTuple):
    """A file of a copy.

    Attributes: name: the path relative to the root. size: bytes. is_written: False if it was unchanged.
    """

    name: str
    size: int
    is_written: bool = True


def count_parts(files: Sequence[CopiedFile]) -> tuple[CopiedPart, ...]:
    """Return the parts of a store that has some files."""
    found: dict[str, CopiedPart] = {}
    for file in files:
        part = file.name.partition("/")[0]
        known = found.get(part, CopiedPart(part, 0, 0, 0))
        found[part] = CopiedPart(part, known.files + 1, known.size + file.size, known.written + file.is_written)
    return tuple(found[part] for part in sorted(found))
