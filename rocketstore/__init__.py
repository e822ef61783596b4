"""The on-disk message store of Apache RocketMQ, from Python, at the speed of C.

Five names are enough for most programs:

* ``open`` opens the store that a broker left or is writing, or a new store. It returns a ``MessageStore``.
* ``MessageStore`` reads, queries, follows and writes messages: ``scan``, ``query_message``, ``get_message``,
  ``put_message``. ``store["Orders"]`` is a topic.
* ``Message`` is one message, to be put or as it was read.
* ``MessageBatch`` is many messages as columns, for NumPy, Arrow, pandas, polars and DuckDB.
* ``StoreConfig`` says how a store is laid out and written.

``recover``, ``rebuild``, ``verify`` and ``salvage`` repair a store while its broker is stopped. The other names are the
parts of a store, the results of these methods, and errors.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rocketstore.config import StoreConfig
    from rocketstore.disk.mapped_file import MappedFile, SelectMappedBufferResult
    from rocketstore.disk.remote.remote_path import RemotePath
    from rocketstore.disk.store_path import StorePath
    from rocketstore.dispatch.follow import DispatchRequest
    from rocketstore.errors import (
        CorruptFileError,
        DiskReadError,
        PutMessageError,
        StoreClosedError,
        StoreError,
        StoreLockedError,
        UnsupportedFormatError,
    )
    from rocketstore.index.index_file import IndexFile
    from rocketstore.index.index_header import IndexHeader
    from rocketstore.index.index_service import IndexService
    from rocketstore.index.query_offset_result import QueryOffsetResult
    from rocketstore.kernels.keys import hash_keys
    from rocketstore.kernels.phy_offsets import PhyOffsets
    from rocketstore.kernels.value_columns import BinaryColumn, ListColumn, MapColumn, StringColumn
    from rocketstore.log.commit_log import CommitLog
    from rocketstore.log.scan import Scan
    from rocketstore.messages.message import Message
    from rocketstore.messages.message_batch import MessageBatch
    from rocketstore.messages.message_id import create_uniq_id
    from rocketstore.messages.put_result import PutMessageResult, PutMessagesResult
    from rocketstore.query.by_time import PhyOffsetByTime
    from rocketstore.query.get_message import GetMessageResult, GetMessageStatus
    from rocketstore.query.query_messages import QueryMessageResult, QueryMessagesResult
    from rocketstore.queue.batch_consume_queue import BatchConsumeQueue
    from rocketstore.queue.consume_queue import ConsumeQueue
    from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
    from rocketstore.rebuild.rebuild import RebuildReport, rebuild
    from rocketstore.recovery.recover import RecoveryReport, recover
    from rocketstore.salvage.salvage import LostRange, SalvageReport, UnverifiedRange, salvage
    from rocketstore.state.checkpoint import StoreCheckpoint
    from rocketstore.store.expiry import ExpiredFiles
    from rocketstore.store.message_store import MessageStore
    from rocketstore.store.overview.lag import ConsumerLag
    from rocketstore.store.overview.summary import StoreSummary
    from rocketstore.store.scan_polars import scan_polars
    from rocketstore.store.topic import Topic
    from rocketstore.survey.broker_config import BrokerConfig
    from rocketstore.verify.report import Finding, VerifyReport
    from rocketstore.verify.verify import verify

__all__ = [
    "BatchConsumeQueue",
    "BinaryColumn",
    "BrokerConfig",
    "CommitLog",
    "ConsumeQueue",
    "ConsumeQueueExt",
    "ConsumerLag",
    "CorruptFileError",
    "DiskReadError",
    "DispatchRequest",
    "ExpiredFiles",
    "Finding",
    "GetMessageResult",
    "GetMessageStatus",
    "IndexFile",
    "IndexHeader",
    "IndexService",
    "ListColumn",
    "LostRange",
    "MapColumn",
    "MappedFile",
    "Message",
    "MessageBatch",
    "MessageStore",
    "PhyOffsetByTime",
    "PhyOffsets",
    "PutMessageError",
    "PutMessageResult",
    "PutMessagesResult",
    "QueryMessageResult",
    "QueryMessagesResult",
    "QueryOffsetResult",
    "RebuildReport",
    "RecoveryReport",
    "RemotePath",
    "SalvageReport",
    "Scan",
    "SelectMappedBufferResult",
    "StoreCheckpoint",
    "StoreClosedError",
    "StoreConfig",
    "StoreError",
    "StoreLockedError",
    "StoreSummary",
    "StringColumn",
    "Topic",
    "UnsupportedFormatError",
    "UnverifiedRange",
    "VerifyReport",
    "create_uniq_id",
    "hash_keys",
    "open",
    "rebuild",
    "recover",
    "salvage",
    "scan_polars",
    "verify",
]

__version__ = "0.1.0"

MODULES = {  # of the public names; each module is imported when a name is first used, since all take 80 ms
    "BatchConsumeQueue": "rocketstore.queue.batch_consume_queue",
    "BinaryColumn": "rocketstore.kernels.value_columns",
    "BrokerConfig": "rocketstore.survey.broker_config",
    "CommitLog": "rocketstore.log.commit_log",
    "ConsumeQueue": "rocketstore.queue.consume_queue",
    "ConsumeQueueExt": "rocketstore.queue.consume_queue_ext",
    "ConsumerLag": "rocketstore.store.overview.lag",
    "CorruptFileError": "rocketstore.errors",
    "DiskReadError": "rocketstore.errors",
    "DispatchRequest": "rocketstore.dispatch.follow",
    "ExpiredFiles": "rocketstore.store.expiry",
    "Finding": "rocketstore.verify.report",
    "GetMessageResult": "rocketstore.query.get_message",
    "GetMessageStatus": "rocketstore.query.get_message",
    "IndexFile": "rocketstore.index.index_file",
    "IndexHeader": "rocketstore.index.index_header",
    "IndexService": "rocketstore.index.index_service",
    "ListColumn": "rocketstore.kernels.value_columns",
    "LostRange": "rocketstore.salvage.salvage",
    "MapColumn": "rocketstore.kernels.value_columns",
    "MappedFile": "rocketstore.disk.mapped_file",
    "Message": "rocketstore.messages.message",
    "MessageBatch": "rocketstore.messages.message_batch",
    "MessageStore": "rocketstore.store.message_store",
    "PhyOffsetByTime": "rocketstore.query.by_time",
    "PhyOffsets": "rocketstore.kernels.phy_offsets",
    "PutMessageError": "rocketstore.errors",
    "PutMessageResult": "rocketstore.messages.put_result",
    "PutMessagesResult": "rocketstore.messages.put_result",
    "QueryMessageResult": "rocketstore.query.query_messages",
    "QueryMessagesResult": "rocketstore.query.query_messages",
    "QueryOffsetResult": "rocketstore.index.query_offset_result",
    "RebuildReport": "rocketstore.rebuild.rebuild",
    "RecoveryReport": "rocketstore.recovery.recover",
    "RemotePath": "rocketstore.disk.remote.remote_path",
    "SalvageReport": "rocketstore.salvage.salvage",
    "Scan": "rocketstore.log.scan",
    "SelectMappedBufferResult": "rocketstore.disk.mapped_file",
    "StoreCheckpoint": "rocketstore.state.checkpoint",
    "StoreClosedError": "rocketstore.errors",
    "StoreConfig": "rocketstore.config",
    "StoreError": "rocketstore.errors",
    "StoreLockedError": "rocketstore.errors",
    "StoreSummary": "rocketstore.store.overview.summary",
    "StringColumn": "rocketstore.kernels.value_columns",
    "Topic": "rocketstore.store.topic",
    "UnsupportedFormatError": "rocketstore.errors",
    "UnverifiedRange": "rocketstore.salvage.salvage",
    "VerifyReport": "rocketstore.verify.report",
    "create_uniq_id": "rocketstore.messages.message_id",
    "hash_keys": "rocketstore.kernels.keys",
    "rebuild": "rocketstore.rebuild.rebuild",
    "recover": "rocketstore.recovery.recover",
    "salvage": "rocketstore.salvage.salvage",
    "scan_polars": "rocketstore.store.scan_polars",
    "verify": "rocketstore.verify.verify",
}
for name in ("rebuild", "salvage", "verify"):
    # Python binds the name of a subpackage when it first imports it. From here on the name is the function's.
    importlib.import_module(f"rocketstore.{name}")
    del globals()[name]
del name


def __getattr__(name: str) -> object:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *MODULES})


def open(
    path: str | os.PathLike[str] | StorePath,
    mode: Literal["r", "r+", "a"] = "r",
    *,
    config: StoreConfig | None = None,
    leftovers: bool = False,
) -> MessageStore:
    """Open the store that a broker left in a directory or is writing there, or a store to write.

    Reading changes no byte and takes no lock. A writer takes RocketMQ's lock, recovers the store, and leaves it as a
    broker does. Use ``with`` or ``close``. Otherwise the next opening for writing recovers the store as after a crash.

    Parameters
    ----------
    path : the root, which is the directory with ``commitlog`` in it. It may be a local path, a URI, a path of
        universal_pathlib, or a RemotePath.
    mode : "r" reads. "r+" also writes to an existing store. "a" also makes missing directories and files.
    config : how the store is laid out, written and recovered. Sizes of files come from ``config``, else from the
        settings that the last writer saved, else from the files.
    leftovers : also read old records and units behind the ends of log and queues. Only for mode "r".

    Raises
    ------
    FileNotFoundError, NotADirectoryError. StoreError : no store is in the directory. StoreLockedError : another process
    writes the store. UnsupportedFormatError : a store to write has its log in DLedger or its queues in RocksDB.
    CorruptFileError : the store cannot be recovered without loss. io.UnsupportedOperation : a remote store in another
    mode than "r". ModuleNotFoundError : a package is missing; the error names it. ValueError : the mode or the protocol
    is unknown, or a size follows from nothing.

    Notes
    -----
    After a clean stop, the log ends where the files prove that a broker cut it. Without a proof, bytes that are no
    record are damage, and the records behind them are read. A queue ends before its first unit that leads to the log's
    end or behind it. Old records and units, which a broker cut off and did not erase, are behind these ends.

    A remote store is read with fsspec, from the extra "remote", and with fsspec's package for the protocol, for example
    s3fs. Pass a URI, ``s3://bucket/store``, or ``RemotePath(filesystem, path)`` with a file system of fsspec or
    pyarrow. The options of a URI come from the environment (``AWS_ENDPOINT_URL``, ``FSSPEC_S3_KEY``) and from
    ``~/.config/fsspec/*.json``. They must be on every machine to which a reader is sent. Only the needed ranges of the
    log are fetched. An index file is fetched once, whole, into a temporary file. Growth is seen within a second or two.

    Source: DefaultMessageStore.load, DefaultMessageStore.start.

    Examples:
    >>> store = rocketstore.open("demo")
    >>> [topic.name for topic in store]
    ['Orders', 'Users']
    >>> store.query_message("Orders", "order-7")[0].body
    b'order 7'
    """
    from rocketstore.store.message_store import MessageStore

    return MessageStore.open(path, mode, config=config, leftovers=leftovers)
