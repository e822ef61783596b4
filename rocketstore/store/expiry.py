"""Find and delete the files of a store that have expired."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from rocketstore.config import StoreConfig
from rocketstore.disk.durable import sync_path
from rocketstore.disk.file_run_reader import RunFile
from rocketstore.disk.held_directory import HeldDirectory, unlink_path
from rocketstore.disk.storage import local_path
from rocketstore.index.index_service import IndexService
from rocketstore.preview import show_fields
from rocketstore.queue.batch_consume_queue_writer import BatchConsumeQueueWriter
from rocketstore.queue.consume_queue_writer import ConsumeQueueWriter


class Deleted(NamedTuple):
    """Files of one kind, oldest first, and their size together, bytes."""

    paths: list[Path]
    size: int


@dataclass(frozen=True, repr=False)
class ExpiredFiles:
    """The files that were deleted, or would be in a dry run.

    Attributes: min_phy_offset: where the commit log begins without them, bytes.

    Examples:
    >>> with rocketstore.open("full", "a", config=StoreConfig.small()) as store:
    ...     expired = store.delete_expired_files(hours=72, dry_run=True)
    >>> expired.commit_log.paths, expired.min_phy_offset
    ([], 0)
    """

    min_phy_offset: int
    commit_log: Deleted
    consume_queue: Deleted
    index: Deleted

    def __repr__(self) -> str:
        return show_fields(self)


def expired_files(
    files: Sequence[RunFile],
    max_phy_offset: int,
    config: StoreConfig,
    hours: float | None = None,
    before_phy_offset: int | None = None,
) -> list[RunFile]:
    """Return the files of a commit log that have expired: the oldest ones, never the last file.

    Parameters: files: of the log, oldest first. max_phy_offset: where the log ends; a file that begins there was made
    ahead and is not the last file. hours: since a file was changed; None for config.file_reserved_time, or 0 if
    ``before_phy_offset`` is given. before_phy_offset: only files that end there or before. Raises: ValueError.
    Source: MappedFileQueue.deleteExpiredFileByTime.
    """
    if hours is None:
        if before_phy_offset is None:
            config.require_usable("file_reserved_time")
        hours = config.file_reserved_time if before_phy_offset is None else 0
    if not hours >= 0:
        raise ValueError(f"hours={hours}: must not be negative")
    latest = time.time() - hours * 3600

    def is_expired(file: RunFile) -> bool:
        return (
            before_phy_offset is None or file.end_offset <= before_phy_offset
        ) and file.path.stat().st_mtime <= latest

    return list(takewhile(is_expired, older_files(files, max_phy_offset)))


def older_files(files: Sequence[RunFile], max_phy_offset: int) -> list[RunFile]:
    """Return all files of a log that may ever expire: those before the last one that has records.

    Parameters: as for ``expired_files``.
    """
    return list(takewhile(lambda file: file.end_offset < max_phy_offset, files[:-1]))


def delete_expired_files(
    files: Sequence[RunFile],
    max_phy_offset: int,
    queues: Iterable[ConsumeQueueWriter | BatchConsumeQueueWriter],
    index: IndexService | None,
    config: StoreConfig,
    hours: float | None = None,
    before_phy_offset: int | None = None,
    dry_run: bool = False,
    held: Mapping[Path, HeldDirectory] | None = None,
) -> ExpiredFiles:
    """Delete the expired files of the commit log, and the files of queues and index that point only into these.

    If a call is interrupted, the next call deletes the rest. Parameters: as ``expired_files``; dry_run: change nothing;
    held: the directories of the log, by path, below which files are deleted; None to delete them by their paths.
    Raises: ValueError; OSError.
    Source: CleanCommitLogService, CleanConsumeQueueService.
    """
    expired = expired_files(files, max_phy_offset, config, hours, before_phy_offset)
    min_phy_offset = files[len(expired)].file_from_offset if files else 0
    # The log comes first, and the deletion of each file is on the disk before the next file is deleted. So a crash
    # leaves a log without a gap, and queues and index that begin before the log; RocketMQ's do so for seconds too.
    # Recovery then only corrects their first offset. If a unit were deleted before its message, recovery would think
    # that the message was never dispatched.
    if not dry_run:
        for file in expired:
            path = local_path(file.path)
            directory = (held or {}).get(path.parent)
            unlink_path(path, directory, missing_ok=True)
            sync_path(path.parent, directory)
    queue_paths: list[Path] = []
    size = 0
    for queue in queues:
        paths = queue.delete_expired(min_phy_offset, dry_run)
        queue.release()  # there may be more queues than descriptors
        queue_paths += paths
        size += len(paths) * queue.mapped_file_size
    return ExpiredFiles(
        min_phy_offset,
        Deleted([local_path(file.path) for file in expired], sum(file.size for file in expired)),
        Deleted(queue_paths, size),
        _delete_index_files(index, min_phy_offset, dry_run),
    )


def _delete_index_files(index: IndexService | None, min_phy_offset: int, dry_run: bool) -> Deleted:
    expired = [] if index is None else [local_path(path) for path in index.find_expired_files(min_phy_offset)]
    deleted = Deleted(expired, sum(path.stat().st_size for path in expired))
    if index is not None and not dry_run:
        index.delete_expired_file(min_phy_offset)
    return deleted
