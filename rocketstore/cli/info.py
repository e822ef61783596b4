"""``rocketstore info``: what is in a store, or in index files."""

from functools import partial
from pathlib import Path

import click

from rocketstore.cli.formats import Row, finish, format_option, note, write_parts, write_rows
from rocketstore.cli.index_files import index_paths
from rocketstore.cli.options import geometry_options, store_or_index_argument
from rocketstore.config import camel_case
from rocketstore.errors import StoreError
from rocketstore.index.geometry import geometry_of
from rocketstore.index.index_file import IndexFile
from rocketstore.store.message_store import MessageStore

__all__ = ["info"]


@click.command()
@store_or_index_argument
@geometry_options
@format_option
def info(path: MessageStore | Path, hash_slot_num: int | None, index_num: int | None,
         output_format: str | None) -> None:
    """Show what is in PATH: a store, an index directory or an index file.

    Of a store: how much there is, from when to when, which part of the log the index has, and whether it was stopped
    cleanly. Of index files: slots used are counted as RocketMQ counts them in the header. Times are UTC.
    """
    if isinstance(path, MessageStore):
        summary = {camel_case(name): value for name, value in path.summary()._asdict().items()}
        problems, notes = summary.pop("problems"), summary.pop("notes")
        write_rows([[{"path": str(path.path), **summary}]], output_format)
        for text in notes:
            note(text)
        finish(dict.fromkeys(problems))  # several parts may lack the same
    else:
        paths = index_paths(path)
        geometry = common_geometry(paths) if hash_slot_num is None else (hash_slot_num, index_num)
        write_parts((partial(rows_of, file, *geometry) for file in paths), output_format)


def common_geometry(paths: list[Path]) -> tuple[int, int] | tuple[None, None]:
    """The geometry of the first file that shows it: an empty one does not, and a damaged one need not."""
    for path in paths:
        try:
            return geometry_of([path], for_writing=False)
        except (OSError, StoreError, ValueError):
            continue
    return None, None


def rows_of(path: Path, slots: int | None, items: int | None) -> list[Row]:
    with IndexFile.open(path, hash_slot_num=slots, index_num=items) as file:
        header = file.header
        return [{
            "file": path.name,
            "items": len(file),
            "capacity": file.index_num - 1,
            "slotsUsed": header.hash_slot_count,
            "slots": file.hash_slot_num,
            "beginTimestamp": header.begin_timestamp or None,
            "endTimestamp": header.end_timestamp or None,
            "beginPhyOffset": header.begin_phy_offset,
            "endPhyOffset": header.end_phy_offset,
            "bytes": file.geometry.file_size,
        }]
