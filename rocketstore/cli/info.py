"""``rocketstore info``: summarize a store or index files."""

from functools import partial
from pathlib import Path

import click

from rocketstore.cli.formats import Row, RowsView, finish, write_parts, write_rows
from rocketstore.cli.index_files import index_paths
from rocketstore.cli.options import geometry_options, rows_options, store_or_index_argument
from rocketstore.cli.text import note
from rocketstore.config import camel_case
from rocketstore.errors import StoreError
from rocketstore.index.geometry import IndexGeometry, geometry_of
from rocketstore.index.index_file import IndexFile
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
    was stopped cleanly. For index files: the contents of the headers. slotsUsed is the header's count, which
    RocketMQ makes by a rule of its own.
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
        write_parts((partial(rows_of, file, geometry) for file in paths), view)


def common_geometry(paths: list[Path]) -> IndexGeometry | None:
    """Return the geometry of the first file that shows it. An empty file does not; a damaged one may not."""
    for path in paths:
        try:
            return geometry_of([path], for_writing=False)
        except (OSError, StoreError, ValueError):
            continue
    return None


def rows_of(path: Path, geometry: IndexGeometry | None) -> list[Row]:
    slots, items = geometry or (None, None)
    with IndexFile.open(path, hash_slot_num=slots, index_num=items) as file:
        header = file.header
        values = (
            path.name,
            len(file),
            file.index_num - 1,
            header.hash_slot_count,
            file.hash_slot_num,
            header.begin_timestamp or None,
            header.end_timestamp or None,
            header.begin_phy_offset,
            header.end_phy_offset,
            file.geometry.file_size,
        )
        return [dict(zip(OF_INDEX, values, strict=True))]
