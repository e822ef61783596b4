"""Where a broker begins to dispatch again after a crash, by the rules of each release."""

from __future__ import annotations

from rocketstore.config import Compat, StoreConfig
from rocketstore.log.commit_log import CommitLog
from rocketstore.state.checkpoint import StoreCheckpoint

__all__ = ["find_dispatch_begin", "is_head_before_checkpoint", "is_index_safe"]

DEFAULT_RECOVER_MAX_NUM = 10
MARGIN_MILLIS = 3000  # by which releases before 5.5 trust the checkpoint less
MAGICS = (0xDAA320A7, 0xDAA320AB)  # of records, the second from 5.1.0 on
MAGIC, SYS_FLAG, STORE_TIMESTAMP, IPV6_STORE_TIMESTAMP, BORN_HOST_V6 = 4, 36, 56, 68, 0x10
HEAD_SIZE = IPV6_STORE_TIMESTAMP + 8  # bytes


def find_dispatch_begin(log: CommitLog, checkpoint: StoreCheckpoint, config: StoreConfig) -> int:
    """Return the physical offset of the file that a broker of ``config.compat`` dispatches again first after a crash.

    Source: CommitLog.recoverAbnormally, CommitLog.isMappedFileMatchedRecover; from 5.4.0 on also
    ConsumeQueueStore.isMappedFileMatchedRecover.
    """
    is_new, files = Compat.of(config.compat).limits_recovery, log.queue.files
    if is_new:
        most = config.commit_log_recover_max_num
        files = files[-(most if most > 0 else DEFAULT_RECOVER_MAX_NUM) :]
    for file in reversed(files):
        offset = file.file_from_offset
        matches = _is_record_before if is_new else _is_head_before
        if matches(log, offset, checkpoint, config):
            return offset
    return files[0].file_from_offset if files else 0


def is_head_before_checkpoint(head: bytes | memoryview, checkpoint: StoreCheckpoint, config: StoreConfig) -> bool:
    """Return whether the first bytes of a file are a record's that is older than the checkpoint.

    Releases before 5.4.0 look at the magic, the store time and where that is, and at no more.
    """
    compat = Compat.of(config.compat)
    is_ipv6 = compat.has_ipv6 and int.from_bytes(head[SYS_FLAG : SYS_FLAG + 4], "big") & BORN_HOST_V6
    at = IPV6_STORE_TIMESTAMP if is_ipv6 else STORE_TIMESTAMP
    time = int.from_bytes(head[at : at + 8], "big", signed=True)
    magics = MAGICS if compat.has_v2 else MAGICS[:1]
    is_record = int.from_bytes(head[MAGIC : MAGIC + 4], "big") in magics
    return is_record and time != 0 and time <= _least_time(checkpoint, config)


def is_index_safe(config: StoreConfig) -> bool:
    return bool(config.message_index_enable and config.message_index_safe)


def _least_time(checkpoint: StoreCheckpoint, config: StoreConfig) -> int:
    """Source: StoreCheckpoint.getMinTimestamp, getMinTimestampIndex."""
    least = max(min(checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp) - MARGIN_MILLIS, 0)
    return min(least, checkpoint.index_msg_timestamp) if is_index_safe(config) else least


def _is_head_before(log: CommitLog, offset: int, checkpoint: StoreCheckpoint, config: StoreConfig) -> bool:
    head = log.queue.pread(offset, HEAD_SIZE)
    return len(head) == HEAD_SIZE and is_head_before_checkpoint(head, checkpoint, config)


def _is_record_before(log: CommitLog, offset: int, checkpoint: StoreCheckpoint, config: StoreConfig) -> bool:
    first = log.find_message(offset)
    if first is None or first.store_timestamp == 0:
        return False
    if is_index_safe(config) and first.store_timestamp > checkpoint.index_msg_timestamp:
        return False
    if not Compat.of(config.compat).has_logics_physical_offset:
        return bool(first.store_timestamp <= _least_time(checkpoint, config))
    if checkpoint.logics_physical_offset > 0:
        return bool(first.phy_offset <= checkpoint.logics_physical_offset)
    return bool(first.store_timestamp <= checkpoint.logics_msg_timestamp)
