"""The names of the files and directories that brokers, controllers and rocketstore make in the root of a store.

The names are those of RocketMQ 4.6 to 5.5.1. Directories that a configuration names are not among them.
"""

from __future__ import annotations

import re
from collections.abc import Collection

# Source: StorePathConfigHelper, MessageStoreConfig, MessageRocksDBStorage, CompactionStore, TimerMessageStore,
# PopConsumerService, IndexStoreService of tiered storage.
PARTS = frozenset({
    "commitlog", "consumequeue", "consumequeue_ext", "consumequeue_rocksdb", "batchconsumequeue", "index", "config",
    "checkpoint", "lock", "transaction", "compaction", "timerlog", "rocksdbstore", "kvStore", "tiered_index_file",
})  # fmt: skip
OTHERS = re.compile(
    # MixAll.string2File keeps the text before as .bak; releases before 5 wrote .tmp first.
    # Source: DefaultMessageStore.createTempFile, EpochFileCache, BrokerMetadata, ReplicasManager.
    r"(?:abort|epochFileCheckpoint|brokerIdentity|brokerIdentity-temp)(?:\.bak|\.tmp)?"
    r"|timerwheel(?:\.\d+)?(?:\.tmp)?"  # and its snapshots. Source: TimerWheel.backup
    r"|dledger-.*"  # the log of a broker, or of a controller with DLedger. Source: DLedgerConfig.getDefaultPath
    r"|rocketstore-.+|.+\.bak-.+"  # of rocketstore
)
# A controller with JRaft makes these three in its directory. Source: JRaftController.
JRAFT = frozenset({"log", "raft_meta", "snapshot"})


def is_known(name: str, names: Collection[str]) -> bool:
    """Return whether a broker, a controller or rocketstore makes a file or directory of this name in the root.

    Parameters: names: of all files and directories of the root.
    """
    is_of_jraft = name in JRAFT and JRAFT.issubset(names)
    return name in PARTS or is_of_jraft or OTHERS.fullmatch(name) is not None
