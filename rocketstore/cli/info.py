"""``rocketstore info``: summarize a store or index files."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
import numpy as np

from rocketstore.cli.formats import Row, RowsView, finish, write_parts, write_rows
from rocketstore.cli.index_files import index_paths
from rocketstore.cli.options import geometry_options, rows_options, store_or_index_argument
from rocketstore.cli.text import note
from rocketstore.config import camel_case
from rocketstore.errors import StoreError
from rocketstore.index.geometry import IndexGeometry, geometry_of
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_header import IndexHeader
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.summary import StoreSummary

__all__ = ["info"]

OF_STORE = ["path", *(camel_case(name) for name in StoreSummary._fields if name not in ("problems", "notes"))]
OF_INDEX = [
    "file",
    "items",
    "capacity",
    "slotsUsed",
    "slots",
    "beginTimestamp",
    "endTimestamp",
    "beginPhyOffset",
    "endPhyOffset",
    "bytes",
]


@click.command()
@store_or_index_argument
@geometry_options
@rows_options(*dict.fromkeys([*OF_STORE, *OF_INDEX]))
def info(path: MessageStore | Path, geometry: IndexGeometry | None, view: RowsView) -> None:
    """Summarize PATH: a store, an index directory or an index file. Times are UTC.

    For a store: the number of messages, their times, the part of the log that the index covers, and whether the store
    was stopped cleanly. For index files: the contents of the headers. slotsUsed is counted in the slots. A header that
    disagrees with slots and items is a problem.
    """
    if isinstance(path, MessageStore):
        summary = {camel_case(name): value for name, value in path.summary()._asdict().items()}
        problems, notes = summary.pop("problems"), summary.pop("notes")
        write_rows([{"path": str(path.path), **summary}], view)
        for text in notes:
            note(text)
        finish(dict.fromkeys(problems))  # report each problem once
    else:
        paths = index_paths(path)
        geometry = geometry or common_geometry(paths)
        of_files: list[str] = []
        write_parts((partial(rows_of, file, geometry, of_files) for file in paths), view, of_files)


def common_geometry(paths: list[Path]) -> IndexGeometry | None:
    """Return the geometry of the first file that shows it. An empty file does not; a damaged one may not."""
    for path in paths:
        try:
            return geometry_of([path], for_writing=False)
        except (OSError, StoreError, ValueError):
            continue
    return None


def rows_of(path: Path, geometry: IndexGeometry | None, problems: list[str]) -> list[Row]:
    """Return the row of an index file. Add the fields of its header that are wrong to ``problems``."""
    slots, items = geometry or (None, None)
    with IndexFile.open(path, hash_slot_num=slots, index_num=items) as file:
        header, ordinals = file.header, file.slots()
        used = int(np.count_nonzero((ordinals > 0) & (ordinals < header.index_count)))
        problems += find_wrong_fields(file, header, used, int(ordinals.max()))
        values = (
            path.name,
            header.index_count - 1,
            file.index_num - 1,
            used,
            file.hash_slot_num,
            header.begin_timestamp or None,
            header.end_timestamp or None,
            header.begin_phy_offset,
            header.end_phy_offset,
            file.geometry.file_size,
        )
        return [dict(zip(OF_INDEX, values, strict=True))]


def find_wrong_fields(file: IndexFile, header: IndexHeader, used: int, newest: int) -> Iterator[str]:
    """Yield a text for each field of a header that slots or items contradict.

    Parameters: used: the number of slots that lead to an item. newest: the greatest ordinal to which a slot leads.
    """
    count = header.index_count - 1
    if newest not in (count, count + 1):  # a process that ended while it put an item left one that does not count
        yield f"{file.path}: the header's indexCount is {header.index_count}, but slots lead to items up to {newest}"
    if header.hash_slot_count not in (used, count):  # until 4.7.0 each put was counted
        yield f"{file.path}: the header's hashSlotCount is {header.hash_slot_count}, but {used} slots are used"
    if count > 0:
        first, last = (int(file.items(ordinal, ordinal + 1)["phy_offset"][0]) for ordinal in (1, count))
        if header.begin_phy_offset != first:
            yield f"{file.path}: the header's beginPhyOffset is {header.begin_phy_offset}, but item 1 leads to {first}"
        if header.end_phy_offset != last:
            yield f"{file.path}: the header's endPhyOffset is {header.end_phy_offset}, but item {count} leads to {last}"
