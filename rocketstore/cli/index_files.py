"""Find the index files of a path from the command line, and look up a key in them."""

from pathlib import Path

from rocketstore.index.geometry import IndexGeometry
from rocketstore.index.index_file import IndexFile
from rocketstore.index.index_service import IndexService, IndexType


def find_offsets(
    path: Path,
    geometry: IndexGeometry | None,
    topic: str,
    key: str,
    limits: tuple[int, int, int],
    index_type: IndexType | None,
) -> list[int]:
    """Return the physical offsets of a key in an index directory or an index file.

    Parameters: limits: the largest number of offsets, and the first and the last time, epoch milliseconds.
    """
    slots, items = geometry or (None, None)
    if path.is_dir():
        with IndexService.open(path, hash_slot_num=slots, index_num=items) as index:
            return index.query_offset(topic, key, *limits, index_type=index_type).phy_offsets
    with IndexFile.open(path, hash_slot_num=slots, index_num=items) as file:
        return file.select_phy_offset(f"{topic}#T#{key}" if index_type == "T" else f"{topic}#{key}", *limits)
