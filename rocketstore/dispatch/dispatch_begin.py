"""Where a broker begins to dispatch again after a crash, by the rules of each release."""

from __future__ import annotations

from rocketstore.compat import Compat
from rocketstore.config import StoreConfig
from rocketstore.kernels.layout import (
    BORN_HOST_V6,
    MAGIC_V1,
    RECORD_HEAD,
    RECORD_MAGICS,
    read_field,
    record_head,
)
from rocketstore.log.commit_log import CommitLog
from rocketstore.state.checkpoint import StoreCheckpoint

DEFAULT_RECOVER_MAX_NUM = 10
MARGIN_MILLIS = 3000  # by which releases before 5.5 trust the checkpoint less
HEAD_SIZE = record_head(BORN_HOST_V6).fields["store_host"][1]  # type: ignore[index]  # bytes up to the store time


def find_dispatch_begin(log: CommitLog, checkpoint: StoreCheckpoint, config: StoreConfig) -> int:
    """Return the physical offset of the file that a broker of ``config.compat`` dispatches again first after a crash.

    Source: CommitLog.recoverAbnormally, CommitLog.isMappedFileMatchedRecover; from 5.4.0 on also
    ConsumeQueueStore.isMappedFileMatchedRecover.
    """
    is_new, files = Compat.of(config.compat).limits_recovery, log.file_run.files
    if is_new:
        most = config.commit_log_recover_max_num
        files = files[-(most if most > 0 else DEFAULT_RECOVER_MAX_NUM) :]
    for file in reversed(files):
        offset = log.reader.begin_in(file)
        matches = _is_record_before if is_new else _is_head_before
        if matches(log, offset, checkpoint, config):
            return offset
    return log.reader.begin_in(files[0]) if files else 0


def is_head_before_checkpoint(head: bytes | memoryview, checkpoint: StoreCheckpoint, config: StoreConfig) -> bool:
    """Return whether the first bytes of a file are a record's that is older than the checkpoint.

    Releases before 5.4.0 read only the magic, the store time and the flag that tells where the store time is.
    """
    compat = Compat.of(config.compat)
    layout = record_head(read_field(head, RECORD_HEAD, "sys_flag") if compat.has_ipv6 else 0)
    time = read_field(head, layout, "store_timestamp")
    is_record = read_field(head, layout, "magic") in (RECORD_MAGICS if compat.has_v2 else (MAGIC_V1,))
    return is_record and time != 0 and time <= _least_time(checkpoint, config)


def is_index_safe(config: StoreConfig) -> bool:
    return bool(config.message_index_enable and config.message_index_safe)


def _least_time(checkpoint: StoreCheckpoint, config: StoreConfig) -> int:
    """Source: StoreCheckpoint.getMinTimestamp, getMinTimestampIndex."""
    least = max(min(checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp) - MARGIN_MILLIS, 0)
    return min(least, checkpoint.index_msg_timestamp) if is_index_safe(config) else least


def _is_head_before(log: CommitLog, offset: int, checkpoint: StoreCheckpoint, config: StoreConfig) -> bool:
    head = log.file_run.pread(log.reader.record_at(offset), HEAD_SIZE)
    return len(head) == HEAD_SIZE and is_head_before_checkpoint(head, checkpoint, config)


def _is_record_before(log: CommitLog, offset: int, checkpoint: StoreCheckpoint, config: StoreConfig) -> bool:
    first = log.find_message(log.reader.record_at(offset))
    if first is None or first.store_timestamp == 0:
        return False
    if is_index_safe(config) and first.store_timestamp > checkpoint.index_msg_timestamp:
        return False
    if not Compat.of(config.compat).has_logics_physical_offset:
        return bool(first.store_timestamp <= _least_time(checkpoint, config))
    if checkpoint.logics_physical_offset > 0:
        return bool(first.phy_offset <= checkpoint.logics_physical_offset)
    return bool(first.store_timestamp <= checkpoint.logics_msg_timestamp)
