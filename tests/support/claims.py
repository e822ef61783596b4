"""What holds each sentence of verify about a broker: the test that compares it with RocketMQ, or the Java method.

A kind of finding needs a row here, so that its sentence is held when it is added. A row is the name of a module of
tests/interop (test_...), "Source: " with the classes and methods that the sentence was read from, or NOTHING.
"""

NOTHING = "the sentence says nothing of what a broker does"
LOADS = "test_verify"  # the load fails, or a file is deleted, there and nowhere else
CUTS = "test_cuts"
HOLES = "test_holes"
KEPT = "test_claims"
STARTS = "test_broker_start"
BEGINS = "test_dispatch_begin"
SELECT = "Source: IndexFile.selectPhyOffset"
INDEX_HEADER = "Source: IndexFile.load, IndexHeader.load, IndexService.queryOffset"

CLAIMS = {
    **dict.fromkeys([
        "log-file-size", "log-file-empty", "log-file-ahead", "log-light-offset", "queue-wrong-root", "queue-file-size",
        "queue-file-empty", "ext-beyond-file", "ext-file-size", "lock-no-file", "checkpoint-size", "checkpoint-damaged",
        "foreign-file-empty", "foreign-file-fatal",
    ], LOADS),
    **dict.fromkeys([
        "log-zeros", "log-magic", "log-size", "log-body-length", "log-topic-length", "log-properties-length",
        "log-body-crc", "log-property-crc", "log-property-crc-missing", "log-delay", "log-inner-batch",
        "log-blank-missing", "log-blank-size", "log-blank-bytes",
    ], CUTS),
    **dict.fromkeys(["log-file-missing", "queue-file-missing", "unit-missing"], HOLES),
    **dict.fromkeys([
        "log-missing", "log-time-falls", "unit-shifted", "unit-size", "unit-tags-code", "unit-batch-base",
        "unit-batch-size", "unit-batch-constant", "unit-store-time", "unit-invalid", "unit-no-record",
        "unit-of-another-queue", "unit-beyond-log", "unit-again", "unit-order", "unit-filler", "ext-tags-code",
        "ext-store-time", "ext-end", "index-begins-late", "index-to-be-deleted", "index-file-size",
        "index-file-not-full", "index-slot-count", "index-begin-offset", "index-order", "index-item-beyond-log",
        "checkpoint-offset", "checkpoint-index-behind", "foreign-file", "sizes-damaged", "write-unfinished",
    ], KEPT),
    **dict.fromkeys([
        "abort-no-file", "timer-damaged", "compaction-queue-name", "queue-no-directory", "directory-unreadable",
        "ext-file-empty", "ext-foreign-file-empty", "ext-foreign-file-fatal", "config-damaged", "config-bak-damaged",
        "config-not-read",
    ], STARTS),
    **dict.fromkeys(["checkpoint-missing", "checkpoint-ahead", "checkpoint-negative", "queue-missing", "queue-behind",
                     "abort"], BEGINS),
    **dict.fromkeys(["unit-leftover", "log-leftovers"], "test_logical_ends"),
    "log-body-compression": KEPT,
    "log-file-name": "Source: MappedFileQueue.findMappedFileByOffset",
    "log-file-overlap": "Source: MappedFileQueue.findMappedFileByOffset",
    "log-phy-offset": "Source: CommitLog.checkMessageAndReturnSize, DispatchRequest.getCommitLogOffset",
    "log-queue-offset-gap": "Source: ConsumeQueue.putMessagePositionInfo",
    "log-queue-offset-again": "Source: ConsumeQueue.putMessagePositionInfo",
    "disk-unreadable": "Source: DefaultMessageStore.load, BrokerStartup.createBrokerController",
    "log-tail": "Source: MappedFileQueue.truncateDirtyFiles",
    "log-torn-record": "Source: CommitLog.checkMessageAndReturnSize",
    "topic-deleted": "Source: CommitLog.recoverAbnormally, ConsumeQueueStore.findOrCreateConsumeQueue",
    "queue-file-name": "Source: ConsumeQueue.getIndexBuffer",
    "queue-file-zeros": "Source: ConsumeQueue.recover, ConsumeQueue.truncateDirtyLogicFiles",
    "unit-delivery-time": "Source: ScheduleMessageService.correctDeliverTimestamp",
    "unit-tail": "Source: ConsumeQueue.recover",
    "ext-missing": "Source: ConsumeQueue.iterateFrom, CqUnit.getValidTagsCodeAsLong",
    "ext-size": "Source: ConsumeQueueExt.recover",
    "index-missing": "Source: IndexService.load",
    "index-behind": "Source: CommitLog.recoverAbnormally, DefaultMessageStore.doDispatch",
    "index-geometry": NOTHING,
    "index-file-name": "Source: IndexService.load, which sorts the names",
    "index-file-order": "Source: IndexService.queryOffset",
    "index-count": "Source: IndexFile.putKey",
    "index-torn-put": "Source: IndexFile.putKey",
    "index-begin-time": SELECT,
    "index-end-time": "Source: IndexFile.isTimeMatched",
    "index-end-offset": INDEX_HEADER,
    "index-chain": SELECT,
    "index-chain-cycle": SELECT,
    "index-slot": SELECT,
    "index-hash": SELECT,
    "index-time-negative": SELECT,
    "index-item-no-record": "Source: DefaultMessageStore.queryMessage",
    "index-item-no-key": "Source: DefaultMessageStore.queryMessage",
    "index-item-time": SELECT,
    "index-item-again": "Source: IndexFile.putKey",
    "index-key-missing": "Source: IndexService.buildIndex",
    "lock-held": "Source: DefaultMessageStore.start",
    "checkpoint-index-ahead": "Source: IndexService.load",
    "config-bak-used": "Source: ConfigManager.load",
    "config-offset": "Source: ScheduleMessageService.correctDelayOffset, DefaultMessageStore.getMessage",
    "not-checked": NOTHING,
    "unreadable": "Source: MappedFileQueue.load, IndexService.load, which fail where a file cannot be opened",
}
