"""Parts of a store in formats that are not read: a log of DLedger's, queues or an index in RocksDB."""

from __future__ import annotations

import contextlib
from pathlib import Path

from rocketstore.config import StoreConfig
from rocketstore.errors import UnsupportedFormatError
from rocketstore.files.batch_consume_queue import QUEUE_KINDS
from rocketstore.storage import scandir
from rocketstore.store.queue_directories import queue_directories

__all__ = ["has_dledger_log", "has_file_queues", "has_rocksdb_data", "require_file_log", "require_file_queues"]


def has_dledger_log(root: Path) -> bool:
    return any(root.glob("dledger-*"))


def require_file_log(root: Path, config: StoreConfig, what: str) -> None:
    """Raise UnsupportedFormatError for a log of DLedger's, beside which commitlog has only what was put before.

    Parameters: what: is not done with it, as "read".
    """
    if config.other.get("enableDLegerCommitLog", "").lower() == "true" or has_dledger_log(root):
        is_mixed = any(path.is_dir() for path in config.commit_log_paths(root))
        hint = "; CommitLog.open reads, and salvage saves, the log of before: give its directory" * is_mixed
        raise UnsupportedFormatError(f"{root}: the commit log is DLedger's, which is not {what}{hint}")


def require_file_queues(root: Path, what: str) -> None:
    """Raise UnsupportedFormatError for queues in RocksDB, unless there are such in files too.

    Parameters: what: is not done with them.
    """
    for name in ("consumequeue", "consumequeue_rocksdb"):
        if (root / name / "CURRENT").exists() and not has_file_queues(root):
            reason = f"the queues are in RocksDB, which is not {what}: rebuild makes files of all queues"
            raise UnsupportedFormatError(f"{root / name}: {reason}")


def has_file_queues(root: Path) -> bool:
    return any(any(queue_directories(root / kind.directory_name)) for kind in QUEUE_KINDS)


def has_rocksdb_data(directory: Path) -> bool:
    """Whether a RocksDB holds anything: 5.5.0 makes an empty one in every store."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), scandir(directory) as entries:
        return any(
            entry.name.endswith(".sst") or (entry.name.endswith(".log") and entry.stat().st_size > 0)
            for entry in entries
        )
    return False
