"""The columns of the lists that commands show, by their names in JSON and CSV."""

from rocketstore.kernels.message_columns import BATCH_NAMES, lazy_fields

MESSAGES = {name: field for name, field in BATCH_NAMES.items() if field in {*lazy_fields(), "body_error", "damaged"}}

SUMMARY = (
    "path",
    "topics",
    "queues",
    "messages",
    "minPhyOffset",
    "maxPhyOffset",
    "beginTimestamp",
    "endTimestamp",
    "indexBeginPhyOffset",
    "indexEndPhyOffset",
    "lastExitOk",
    "isLocked",
    "leftoverBytes",
    "leftoverUnits",
)
INDEX_FILES = (
    "file",
    "items",
    "capacity",
    "slotsUsed",
    "slots",
    "beginTimestamp",
    "endTimestamp",
    "beginPhyOffset",
    "endPhyOffset",
    "bytes",
)
QUEUES = ("topic", "queueId", "minOffset", "maxOffset", "messages", "bytes")
OFFSETS = ("topic", "queueId", "queueOffset", "phyOffset")
FIELDS = ("phyOffset", "field", "value", "hex")  # of a record

AGE = "oldestAgeSeconds"
LAGS = (
    "group",
    "topic",
    "queueId",
    "consumerOffset",
    "minOffset",
    "maxOffset",
    "lag",
    "problem",
    "oldestTimestamp",
    "topicExists",
    "logBytes",
    AGE,
)
LAG_TOTALS = ("group", "topics", "queues", "lag", "logBytes", "oldestTimestamp", AGE)

PENDING = (
    "kind",
    "topic",
    "queueId",
    "keys",
    "uniqKey",
    "dueTimestamp",
    "checkTimes",
    "group",
    "queueOffset",
    "poppedTopic",
    "bornTimestamp",
    "phyOffset",
)
PENDING_TOTALS = ("kind", "topic", "hourTimestamp", "messages")
DEAD = (
    "group",
    "topic",
    "queueId",
    "keys",
    "uniqKey",
    "originMessageId",
    "reconsumeTimes",
    "bornTimestamp",
    "storeTimestamp",
    "storedTopic",
    "storedQueueId",
    "queueOffset",
    "phyOffset",
    "isConsumed",
)
TRACE = (
    "uniqKey",
    "eventTimestamp",
    "kind",
    "topic",
    "queueId",
    "queueOffset",
    "group",
    "detail",
    "phyOffset",
)
DEAD_TOTALS = ("group", "topic", "messages", "beginTimestamp", "endTimestamp")
PARTS = (
    "part",
    "path",
    "files",
    "messages",
    "items",
    "usedBytes",
    "preallocatedBytes",
    "fileBytes",
    "sparseBytes",
    "diskBytes",
    "share",
)
PART_TOTALS = ("files", "usedBytes", "preallocatedBytes", "fileBytes", "sparseBytes", "diskBytes")
DISKS = ("path", "totalBytes", "usedBytes", "freeBytes", "usedShare")
USAGE = ("topic", "queueId", "beginTimestamp", "tag", "tagsCode", "messages", "logBytes", "queueBytes", "share")
USAGE_TOTALS = ("messages", "logBytes", "queueBytes", "otherBytes", "isExact")
EXPIRING = ("part", "path", "fileBytes", "diskBytes", "modifiedTimestamp", "deleteTimestamp", "isForced")
QUEUE_LOSSES = ("topic", "queueId", "minOffset", "newMinOffset", "messages", "logBytes")
GROUP_LOSSES = ("group", "topic", "queueId", "consumerOffset", "newMinOffset", "messages")
EXPIRY_TOTALS = ("files", "fileBytes", "diskBytes", "messages", "unconsumed", "minPhyOffset", "nextTimestamp")
COUNTS = (
    "topic",
    "queueId",
    "tag",
    "bornHost",
    "storeHost",
    "reconsumeTimes",
    "minuteTimestamp",
    "hourTimestamp",
    "dayTimestamp",
    "messages",
    "logBytes",
)

COPIED_PARTS = ("part", "files", "size", "written")
DIFFERENCES = (
    "kind",
    "name",
    "begin",
    "end",
    "number",
    "a",
    "b",
    "topic",
    "queueId",
    "queueOffset",
    "key",
    "phyOffsetA",
    "phyOffsetB",
)
FINDINGS = ("kind", "severity", "path", "offset", "detail", "more", "atNextStart", "mend")
FINDING_KINDS = ("kind", "severity", "meaning", "mend", "atNextStart")
RECOVERY_STEPS = ("what", "path", "offset", "size")
LOST_MESSAGES = (
    "topic",
    "queueId",
    "queueOffset",
    "phyOffset",
    "size",
    "messages",
    "tags",
    "keys",
    "keyHashes",
    "previousStoreTimestamp",
    "nextStoreTimestamp",
    "problem",
)
LOST_RANGES = ("path", "offset", "size", "phyOffset", "reason")
BUILT = ("minPhyOffset", "maxPhyOffset", "queues", "indexFiles", "indexItems", "out", "backups")
STALE_IDS = ("topic", "property", "messages", "firstPhyOffset", "firstId", "firstNewOffset")
SPLIT_PARTS = (
    "part", "path", "topics", "records", "bytes", "minPhyOffset", "maxPhyOffset", "queues", "indexItems",
)  # fmt: skip
BUNDLED_FILES = ("name", "size", "contents")
CONFIG_PROBLEMS = ("file", "what")
