"""``rocketstore info``: summarize a store or index files."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from rocketstore.cli.columns import INDEX_FILES, SUMMARY
from rocketstore.cli.formats import RowsView, finish, write_parts, write_rows
from rocketstore.cli.several import AskedStores, RowsAnswer
from rocketstore.cli.text import note
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError
from rocketstore.index.geometry import IndexGeometry, geometry_of
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_header import IndexHeader
from rocketstore.messages.text_rows import Row
from rocketstore.store.message_store import MessageStore
from rocketstore.survey.nearby import find_index_files
from rocketstore.survey.requirements import begin_entry


def run(path: AskedStores | Path, geometry: IndexGeometry | None, view: RowsView) -> None:
    """Run the command with the values of its options."""
    if isinstance(path, AskedStores):
        found = path.ask(summary_of)
        write_rows(found.rows, view, columns=path.columns(SUMMARY))
        for row in found.others:
            note(row["note"])
        finish(dict.fromkeys(found.problems))  # report each problem once
    else:
        begin_entry("info", path)  # raises without index files
        paths = find_index_files(path)
        geometry = geometry or common_geometry(paths)
        of_files: list[str] = []
        write_parts((partial(rows_of, file, geometry, of_files) for file in paths), view, of_files)


def summary_of(store: MessageStore) -> RowsAnswer:
    """Return the summary of a store, and, as other rows, notes."""
    summary = store.summary()._asdict()
    problems, notes = summary.pop("problems"), summary.pop("notes")
    values = (str(store.path), *summary.values())
    return RowsAnswer(
        [dict(zip(SUMMARY, values, strict=True))], problems=problems, others=[{"note": text} for text in notes]
    )


def common_geometry(paths: Sequence[StorePath]) -> IndexGeometry | None:
    """Return the geometry of the first file that shows it. An empty file does not; a damaged one may not."""
    for path in paths:
        try:
            return geometry_of([path], for_writing=False)
        except (OSError, StoreError, ValueError):
            continue
    return None


def rows_of(path: StorePath, geometry: IndexGeometry | None, problems: list[str]) -> list[Row]:
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
        return [dict(zip(INDEX_FILES, values, strict=True))]


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
