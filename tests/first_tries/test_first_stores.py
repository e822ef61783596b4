"""Commands read each kind of store that brokers leave."""

import pytest
from support import brokers
from support.cli import run

KINDS = [
    "compaction", "config-v2", "cqext", "dledger", "dledger-files", "lite-rocksdb", "lmq", "longtopic", "master",
    "multipath", "nochannel", "rocksdb-cq", "rocksdb-cq-separate", "rocksdb-double", "rocksdb-index", "rocksdb-timer",
    "tiered", "timer-snapshot", "transientpool",
]  # fmt: skip
QUICK = ("compaction", "cqext", "dledger", "rocksdb-cq", "tiered")  # the others are read by `make test-all`


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in KINDS]
)
def test_each_command_reads_each_kind_of_store(kind, tmp_path):
    root = brokers.unpack(kind, tmp_path)
    for words in ("info", "ls --limit 1", "cat --limit 1", "lag --totals", "count"):
        name, *options = words.split()
        result = run(name, root, *options)  # raises any other error than one of the command line
        assert result.exit_code == 0 or "rocketstore[rocksdb]" in result.stderr, words  # without the extra
        assert result.stdout or result.stderr, words
