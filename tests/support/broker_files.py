"""Lines of brokers' files, and what RocketMQ makes of them."""

from rocketstore import StoreConfig
from rocketstore.config import DEFAULT_SIZES

# A line, what RocketMQ's MessageStoreConfig has then that it has not by default, by field of StoreConfig, and a part
# of the warning, or None where there is nothing to warn of.
LINES = [
    ("maxIndexNum=", {}, "no int"),
    ("maxIndexNum=12 ", {}, "no int"),
    ("maxIndexNum= 12", {"max_index_num": 12}, None),
    ("maxIndexNum=+12", {"max_index_num": 12}, None),
    ("maxIndexNum=+", {}, "no int"),
    ("maxIndexNum=++12", {}, "no int"),
    ("maxIndexNum=0x10", {}, "no int"),
    ("maxIndexNum=1_000", {}, "no int"),
    ("maxIndexNum=1e6", {}, "no int"),
    ("maxIndexNum=12.0", {}, "no int"),
    ("maxIndexNum=64M", {}, "no int"),
    ("maxIndexNum=12 # items", {}, "no int"),
    ("maxIndexNum=12\\u00a0", {}, "no int"),
    ("maxIndexNum=2147483647", {"max_index_num": 2147483647}, None),
    ("maxIndexNum=2147483648", {}, "no int"),
    ("maxIndexNum=" + "9" * 5000, {}, "no int"),
    ("maxIndexNum=" + "0" * 5000 + "12", {"max_index_num": 12}, None),
    ("maxIndexNum=\\u0661\\uff12", {"max_index_num": 12}, None),
    ("maxIndexNum=\\ud835\\udfcf", {}, "no int"),
    ("maxIndexNum", {}, "no int"),
    ("commitLogRecoverMaxNum=-2147483648", {"commit_log_recover_max_num": -2147483648}, None),
    ("commitLogRecoverMaxNum=-2147483649", {}, "no int"),
    ("enableLmq=true", {"enable_lmq": True}, None),
    ("enableLmq=TrUe", {"enable_lmq": True}, None),
    ("enableLmq=true ", {}, "neither true nor false"),
    ("enableLmq=yes", {}, "neither true nor false"),
    ("enableLmq=1", {}, "neither true nor false"),
    ("enableLmq", {}, "neither true nor false"),
    ("checkCRCOnRecover=yes", {"check_crc_on_recover": False}, "neither true nor false"),
    ("checkCRCOnRecover=", {"check_crc_on_recover": False}, "neither true nor false"),
    ("checkCRCOnRecover=true ", {"check_crc_on_recover": False}, "neither true nor false"),
    ("checkCrcOnRecover=false", {}, "the property is checkCRCOnRecover"),
    ("flushDiskType=SYNC_FLUSH", {"flush_disk_type": "SYNC_FLUSH"}, None),
    ("flushDiskType=SYNC_FLUSH \\t\\u0000", {"flush_disk_type": "SYNC_FLUSH"}, None),
    ("flushDiskType=sync_flush", {}, "none of ASYNC_FLUSH, SYNC_FLUSH"),
    ("flushDiskType=", {}, "none of ASYNC_FLUSH, SYNC_FLUSH"),
    ("messageDelayLevel= 1s 2m ", {"message_delay_level": "1s 2m"}, None),
    ("storePathCommitLog= /a/b\\u0001", {"store_path_commit_log": "/a/b"}, None),
    ("maxIndexNum=7\nmaxIndexNum=8", {"max_index_num": 8}, None),
    ("maxIndexNum=7\nmaxIndexNum=x", {}, "no int"),
    ("maxIndexNum=x\nmaxIndexNum=7", {"max_index_num": 7}, None),
    ("MaxIndexNum=7", {}, "the property is maxIndexNum"),
    ("mapedFileSizeCommitLog=4096", {}, "the property is mappedFileSizeCommitLog"),
    ("mapedFileSizeConsumeQueue=300000", {}, "the property is mappedFileSizeConsumeQueue"),
    ("mapedFileSizeConsumeQueueExt=4096", {}, "the property is mappedFileSizeConsumeQueueExt"),
    ("mapperFileSizeConsumeQueue=300000", {}, "the property is mappedFileSizeConsumeQueue"),
    ("mappedFileSizeBatchConsumeQueue=46", {}, "the property is mapperFileSizeBatchConsumeQueue"),
    ("mappedFileSizeCommitLog=1000\nmapedFileSizeCommitLog=5", {"mapped_file_size_commit_log": 1000}, "has no effect"),
    ("mapedFileSizeCommitLog=5\nmappedFileSizeCommitLog=1000", {"mapped_file_size_commit_log": 1000}, "has no effect"),
    ("mapedFileSizeCommitLog=x # one GiB", {}, "has no effect"),
]

# Lines that RocketMQ takes and rocketstore cannot use.
UNUSABLE = [
    ("maxIndexNum=0", "max_index_num", 0),
    ("maxIndexNum=-5", "max_index_num", -5),
    ("maxHashSlotNum=-0", "max_hash_slot_num", 0),
    ("mappedFileSizeCommitLog=-1", "mapped_file_size_commit_log", -1),
    ("mappedFileSizeConsumeQueue=2147483647", "mapped_file_size_consume_queue", 2147483647),
    ("mapperFileSizeBatchConsumeQueue=0", "mapper_file_size_batch_consume_queue", 0),
    ("mappedFileSizeConsumeQueueExt=0", "mapped_file_size_consume_queue_ext", 0),
    ("mapperFileSizeBatchConsumeQueue=1000", "mapper_file_size_batch_consume_queue", 1000),
    ("mappedFileSizeConsumeQueueExt=23", "mapped_file_size_consume_queue_ext", 23),
    ("fileReservedTime=-1", "file_reserved_time", -1),
    ("flushIntervalCommitLog=0", "flush_interval_commit_log", 0),
    ("flushCommitLogLeastPages=-1", "flush_commit_log_least_pages", -1),
    ("flushCommitLogThoroughInterval=-1", "flush_commit_log_thorough_interval", -1),
    ("messageDelayLevel=", "message_delay_level", ""),
    ("messageDelayLevel=1s,5s", "message_delay_level", "1s,5s"),
    ("messageDelayLevel=1s  5s", "message_delay_level", "1s  5s"),
]

# Properties that came after 4.5.2: a line, the field, the last release that ignores it, the first that takes it.
LATER = [
    ("mapperFileSizeBatchConsumeQueue=4600", "mapper_file_size_batch_consume_queue", "4.9.8", "5.0.0"),
    ("enableMultiDispatch=true", "enable_multi_dispatch", "4.9.2", "4.9.3"),
    ("enableLmq=true", "enable_lmq", "4.9.2", "4.9.3"),
    ("enabledAppendPropCRC=true", "enabled_append_prop_crc", "5.1.4", "5.2.0"),
    ("forceVerifyPropCRC=true", "force_verify_prop_crc", "5.1.4", "5.2.0"),
    ("commitLogRecoverMaxNum=7", "commit_log_recover_max_num", "5.3.3", "5.4.0"),
    ("readOnlyCommitLogStorePaths=/a", "read_only_commit_log_store_paths", "4.9.1", "4.9.2"),
]


def changed(config):
    """The fields of a configuration that are not those of an empty broker's file."""
    default = vars(StoreConfig(**DEFAULT_SIZES))
    return {name: value for name, value in vars(config).items() if name != "other" and default[name] != value}
