"""rocketstore: the on-disk message store of Apache RocketMQ, from Python, at the speed of C."""

from rocketstore.errors import (
    CorruptFileError,
    StoreClosedError,
    StoreError,
    StoreLockedError,
    UnsupportedFormatError,
)
from rocketstore.files.checkpoint import StoreCheckpoint
from rocketstore.files.index_file import IndexFile, IndexHeader
from rocketstore.kernels.keys import hash_keys
from rocketstore.kernels.phy_offsets import PhyOffsets
from rocketstore.store.index_service import IndexService, QueryOffsetResult

__all__ = [
    "CorruptFileError",
    "IndexFile",
    "IndexHeader",
    "IndexService",
    "PhyOffsets",
    "QueryOffsetResult",
    "StoreCheckpoint",
    "StoreClosedError",
    "StoreError",
    "StoreLockedError",
    "UnsupportedFormatError",
    "hash_keys",
]

__version__ = "0.1.0"
