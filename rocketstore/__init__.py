"""rocketstore: the on-disk message store of Apache RocketMQ, from Python, at the speed of C."""

from rocketstore.config import StoreConfig
from rocketstore.errors import (
    CorruptFileError,
    StoreClosedError,
    StoreError,
    StoreLockedError,
    UnsupportedFormatError,
)
from rocketstore.files.broker_config import BrokerConfig
from rocketstore.files.checkpoint import StoreCheckpoint
from rocketstore.files.commit_log import CommitLog
from rocketstore.files.index_file import IndexFile, IndexHeader
from rocketstore.files.mapped_file import MappedFile, SelectMappedBufferResult
from rocketstore.files.scan import Scan
from rocketstore.kernels.keys import hash_keys
from rocketstore.kernels.phy_offsets import PhyOffsets
from rocketstore.message import Message, MessageBatch
from rocketstore.store.index_service import IndexService, QueryOffsetResult

__all__ = [
    "BrokerConfig",
    "CommitLog",
    "CorruptFileError",
    "IndexFile",
    "IndexHeader",
    "IndexService",
    "MappedFile",
    "Message",
    "MessageBatch",
    "PhyOffsets",
    "QueryOffsetResult",
    "Scan",
    "SelectMappedBufferResult",
    "StoreCheckpoint",
    "StoreClosedError",
    "StoreConfig",
    "StoreError",
    "StoreLockedError",
    "UnsupportedFormatError",
    "hash_keys",
]

__version__ = "0.1.0"
