"""Find the topics whose consumers are served from compacted logs, and open such a log."""

from __future__ import annotations

from collections.abc import Iterable

from rocketstore.config import StoreConfig
from rocketstore.disk.remote.remote_file_run import open_file_run
from rocketstore.disk.store_path import StorePath
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_end import LogView, Why
from rocketstore.survey.broker_config import open_tables
from rocketstore.survey.open_log import log_options
from rocketstore.survey.places import AnyPlaces

POLICY, COMPACTION = "cleanup.policy", "COMPACTION"


def choose_compacted_topics(places: AnyPlaces, config: StoreConfig, names: Iterable[str]) -> frozenset[str]:
    """Return those of some topics with a compacted log that a broker compacts now.

    A topic that was deleted and made again without compaction leaves its compacted log. A topic whose settings are
    unknown counts as compacted.

    Parameters: names: the topics that have a directory of compacted logs.
    Source: DefaultMessageStore.getMessage, CleanupPolicyUtils.getDeletePolicy.
    """
    found = frozenset(names)
    if not found or config.other.get("enableCompaction", "").strip().lower() == "false":
        return frozenset()
    topics = open_tables(places, config).read_topics()
    return frozenset(name for name in found if name not in topics or topics[name].attributes.get(POLICY) == COMPACTION)


def open_compacted_log(directory: StorePath, config: StoreConfig) -> CommitLog:
    """Open the log of one queue of a compacted topic.

    Its files are replaced one by one, so bytes between two files and behind the last record of a file mean nothing:
    units say where records are. Raises: FileNotFoundError; OSError.
    """
    files = open_file_run([directory])
    end = files.files[-1].end_offset if files.files else 0
    return CommitLog(files, log_options(config), view=LogView(end, Why.COMPLETE, end, None, end))
