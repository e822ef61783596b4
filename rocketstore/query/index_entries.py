"""Find where the index leads for a key, also to messages that have expired or are damaged."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from rocketstore.index.index_service import index_key_prefix
from rocketstore.index.rocks_index import RocksIndex
from rocketstore.kernels.keys import hash_keys
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.query.coverage import IndexView

MOST_ENTRIES = 64  # of one key in one part of the index


def find_entries(view: IndexView, topics: Sequence[str], keys: Sequence[str], index_type: str | None) -> list[int]:
    """Return the physical offsets of index entries with the hashes of keys, sorted, also offsets that have expired.

    Of each key, only the ``MOST_ENTRIES`` newest entries in each part of the index are returned.

    Parameters: topics, keys: pairs, as two lists of the same length.
    """
    index = view.key_index
    if index is None or not keys:
        return []
    prefixes = [index_key_prefix(topic, index_type) for topic in topics]
    hashes = hash_keys(list(keys), topic=prefixes)
    files = index.files
    if isinstance(index, RocksIndex):
        texts = [topic.encode() for topic in topics], [key.encode() for key in keys]
        files = index.parts_for_keys(hashes, *texts, index_type)
    limits = {"max_num": MOST_ENTRIES, "begin_timestamp": LONG_MIN, "end_timestamp": LONG_MAX}
    found = (file.select_phy_offsets_by_hash(hashes, **limits).values.tolist() for file in files)
    return sorted({*chain.from_iterable(found)})
