"""The on-disk message store of Apache RocketMQ, from Python, at the speed of C.

Five names are enough for most programs:

* ``open`` opens the store that a broker left or is writing, or a new store. It returns a ``MessageStore``.
* ``MessageStore`` reads, queries, follows and writes messages: ``scan``, ``query_message``, ``get_message``,
  ``put_message``. ``store["Orders"]`` is a topic.
* ``Message`` is one message, to be put or as it was read.
* ``MessageBatch`` is many messages as columns, for NumPy, Arrow, pandas, polars and DuckDB.
* ``StoreConfig`` says how a store is laid out and written.

``recover``, ``rebuild``, ``verify``, ``patch`` and ``salvage`` repair a store while its broker is stopped. The other
names are the parts of a store, the results of these methods, and errors.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rocketstore.config import StoreConfig
    from rocketstore.disk.store_path import StorePath
    from rocketstore.public_names import *  # noqa: F403
    from rocketstore.store.message_store import MessageStore

__version__ = "0.1.0rc1"

FUNCTIONS = ("bundle", "convert", "patch", "rebuild", "salvage", "verify")
WORDS = ("backup", "compare", "dataset", "query", "report", "sql", "store")  # what other tools call such a function
for name in (*FUNCTIONS, *WORDS):
    # Python binds the name of a subpackage when it first imports it. From here on the name is that of a function, or
    # raises an error with the line to type.
    importlib.import_module(f"rocketstore.{name}")
    del globals()[name]
del FUNCTIONS, WORDS, name


def find_public_names() -> dict[str, object]:
    """Import ``public_names``, and return its names with their objects."""
    names = vars(importlib.import_module("rocketstore.public_names"))
    return {name: value for name, value in names.items() if not name.startswith("_")}


def __getattr__(name: str) -> object:
    if name == "__all__" or not name.startswith("_"):
        names = find_public_names()
        globals().update(names, __all__=sorted([*names, "open"]))
        if name in globals():
            return globals()[name]
    hint = ""
    if not name.startswith("_"):
        from rocketstore.names_of_other_tools import describe_line  # only errors need it

        hint = describe_line("rocketstore", name, globals()["__all__"])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted({*globals(), *find_public_names()})


def open(
    path: str | os.PathLike[str] | StorePath,
    mode: Literal["r", "r+", "a"] = "r",
    *,
    config: StoreConfig | None = None,
    leftovers: bool = False,
    tiered: bool = False,
    compacted: bool = False,
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
    tiered : also read the messages that are only in tiered storage; ``follow`` and Spark do not. Only for mode "r".
    compacted : let scans, datasets and queries give the messages of compacted topics that their consumers get, instead
        of all messages that the log has. Only for mode "r".

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

    return MessageStore.open(path, mode, config=config, leftovers=leftovers, tiered=tiered, compacted=compacted)
