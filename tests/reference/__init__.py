"""The slow, readable second implementation of the store's formats: the oracle of the tests.

It knows Java's arithmetic and what RocketMQ reads, writes and answers, and nothing of rocketstore or NumPy.
"""

from .checkpoint import checkpoint_bytes
from .index_file import HEADER, ITEM, CorruptIndex, IndexFile, IndexService, key_hash
from .java import (
    INT_MAX,
    LONG_MAX,
    divide,
    java_decode,
    java_encode,
    java_hash,
    java_split,
    key_for_hash,
    parse_number,
    to_int,
    to_long,
    utf16_length,
)

__all__ = [
    "HEADER",
    "INT_MAX",
    "ITEM",
    "LONG_MAX",
    "CorruptIndex",
    "IndexFile",
    "IndexService",
    "checkpoint_bytes",
    "divide",
    "java_decode",
    "java_encode",
    "java_hash",
    "java_split",
    "key_for_hash",
    "key_hash",
    "parse_number",
    "to_int",
    "to_long",
    "utf16_length",
]
