"""StoreFiles: a store whose files recovery reads."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from enum import IntEnum

from rocketstore.config import SizedConfig
from rocketstore.disk.store_path import StorePath
from rocketstore.dispatch.topic_lives import KnownTopics
from rocketstore.errors import StoreError
from rocketstore.index.geometry import IndexGeometry
from rocketstore.lazy import lazy_property
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_end import StoreState
from rocketstore.progress import Report, report_nothing
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS, BatchConsumeQueue
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.state.config_values import TopicConfig
from rocketstore.state.json_tables import batch_topics
from rocketstore.survey.broker_config import open_tables
from rocketstore.survey.cut_proof import StoreEvidence
from rocketstore.survey.open_log import find_uncommitted, open_log
from rocketstore.survey.places import LocalPlaces, StorePlaces
from rocketstore.survey.survey import Survey

OTHER_TYPE = (  # of plain queues, and of batch queues
    "topics.json says that {0} has queue.type BatchCQ; these have not",
    "these are batch queues, and topics.json does not say that {0} has queue.type BatchCQ: restore it, "
    "or give {0} this attribute there",
)


class Reading(IntEnum):
    """Why recovery reads the log, in order: for its end, for records without units, and to dispatch records."""

    LOG = 0
    QUEUES = 1
    DISPATCH = 2


@dataclass(frozen=True)
class StoreFiles:
    """The log, the checkpoint and the topics of a store.

    Attributes: survey: a plan that is made from these files is applied to the state of the survey alone. last_exit_ok:
    whether the last writer stopped cleanly. progress: is called with bytes that were read, and all bytes: the length of
    the log for each ``Reading``. given_topics: what an earlier state of the store said about its topics; None: the
    present files tell.
    """

    survey: Survey
    config: SizedConfig
    log: CommitLog
    checkpoint: StoreCheckpoint
    last_exit_ok: bool
    progress: Report = report_nothing
    given_topics: KnownTopics | None = None

    def report(self, reading: Reading, phy_offset: int) -> None:
        """Report the progress. Parameters: phy_offset: up to which the log was read, bytes."""
        files = self.log.file_run.files
        if files:
            begin, size = files[0].file_from_offset, files[-1].end_offset - files[0].file_from_offset
            self.progress(reading * size + min(phy_offset - begin, size), len(Reading) * size)

    @property
    def places(self) -> StorePlaces[StorePath]:
        return self.survey.places

    @property
    def root(self) -> StorePath:
        return self.survey.root

    @property
    def local_places(self) -> LocalPlaces:
        """The places of a store that is changed. Raises: io.UnsupportedOperation for a remote store."""
        return self.survey.local_places

    @lazy_property
    def topics(self) -> dict[str, TopicConfig]:
        return open_tables(self.places, self.config).read_topics()

    @lazy_property
    def batch_topics(self) -> set[str]:
        return batch_topics(self.topics)

    @lazy_property
    def known_topics(self) -> KnownTopics:
        return self.given_topics or KnownTopics.of(self.places, self.config, is_stopped=self.last_exit_ok)

    @property
    def index_geometry(self) -> IndexGeometry:
        return IndexGeometry(self.config.max_hash_slot_num, self.config.max_index_num)

    @lazy_property
    def evidence(self) -> StoreEvidence:
        """Decides whether bytes of the log that are no record are a cut of a broker or damage."""
        state = StoreState.STOPPED if self.last_exit_ok else StoreState.CRASHED
        return StoreEvidence(self.places, self.config, state)

    def with_sound_log(self, end: int) -> StoreFiles:
        """Return the same files, with a log whose records before ``end`` are complete, also if they end in zeros."""
        log = self.log.as_whole_to(max(self.log.reader.whole_to, end), self.log.end_finder.unfinished)
        other = copy(self)  # with the lazy properties that were read
        vars(other).update(log=log)
        return other

    @property
    def has_checkpoint(self) -> bool:
        return self.places.checkpoint.exists()


def open_store_files(
    survey: Survey,
    config: SizedConfig,
    *,
    last_exit_ok: bool | None = None,
    progress: Report = report_nothing,
    given_topics: KnownTopics | None = None,
) -> StoreFiles:
    """Open the log and the checkpoint of a store. Close ``log`` afterwards.

    Parameters: survey: made under the lock, if the store will be changed. last_exit_ok: None: the file ``abort`` tells.
    progress, given_topics: as of StoreFiles.
    """
    places = survey.places
    if last_exit_ok is None:
        last_exit_ok = not places.abort.exists()
    whole_to = LONG_MAX if last_exit_ok else 0
    # The last record of a crashed writer may be half written, however old it is.
    state = StoreState.STOPPED if last_exit_ok else StoreState.CRASHED
    log = open_log(
        places,
        config,
        may_be_missing=True,
        whole_to=whole_to,
        trusts_file_times=False,
        unfinished=find_uncommitted(places, config, lambda: state),
    )
    checkpoint = StoreCheckpoint.open(places.checkpoint)
    return StoreFiles(survey, config, log, checkpoint, last_exit_ok, progress, given_topics)


def check_queue_types(store: StoreFiles, is_replaced: Callable[[str], bool] = lambda topic: False) -> None:
    """Raise StoreError for a queue that a broker refuses to load. Source: ConsumeQueueStore.queueTypeShouldBe.

    Parameters: is_replaced: returns whether the queues of a topic will be replaced.
    """
    for kind in QUEUE_KINDS:
        is_batch = kind is BatchConsumeQueue
        for directory in store.places.queues(kind).glob("*"):
            topic = directory.name
            if (topic in store.batch_topics) == is_batch or is_replaced(topic):
                continue
            if any(directory.glob("*/" + "[0-9]" * 20)):
                raise StoreError(f"{directory}: {OTHER_TYPE[is_batch].format(topic)}")
