"""The old store: its log up to its end, its settings, and where its queues end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rocketstore.config import SizedConfig, StoreConfig
from rocketstore.disk.storage import local_path
from rocketstore.dispatch.light_queues import with_light_queues
from rocketstore.dispatch.topic_lives import KnownTopics
from rocketstore.kernels.queue_id import QueueId
from rocketstore.log.commit_log import CommitLog
from rocketstore.queue.queue_source import offset_range
from rocketstore.rebuild.rebuild import topics_in_database
from rocketstore.recovery.plan_log import plan_log
from rocketstore.recovery.settings import BrokerSettings, find_settings
from rocketstore.recovery.store_files import open_store_files
from rocketstore.store.message_store import MessageStore
from rocketstore.survey.sizes import BATCH, EXT, ITEMS, LOG, PLAIN, SLOTS, suppose_sizes, with_default_sizes
from rocketstore.survey.survey import Survey

SIZES = (LOG, PLAIN, BATCH, EXT, SLOTS, ITEMS)


class QueueRange(NamedTuple):
    """The queue offsets of a queue, from ``begin`` to before ``end``. Attributes: has_batches: of a batch queue."""

    begin: int
    end: int
    has_batches: bool


@dataclass(frozen=True)
class OldStore:
    """A stopped store that is converted.

    Attributes: settings: the settings that the caller or files state, and those that the messages show. stated: only
    the first of these; a new store saves no others. shown_sizes: the names of the sizes that the caller or files state.
    config: the settings, with default sizes for all others. end: the physical offset behind the last record.
    uncommitted: bytes of entries of DLedger behind ``end`` that are not committed. known_topics: which topics exist or
    were deleted. queues: those that have messages, or had some that expired.
    """

    survey: Survey
    settings: BrokerSettings[StoreConfig]
    stated: StoreConfig
    shown_sizes: frozenset[str]
    config: SizedConfig
    log: CommitLog
    end: int
    uncommitted: int
    known_topics: KnownTopics
    queues: Mapping[QueueId, QueueRange]

    @property
    def begin(self) -> int:
        """Where the log begins, a physical offset, bytes."""
        return self.log.min_phy_offset

    @property
    def model_file(self) -> Path:
        """The file or directory of the old log whose mode new files get."""
        files = self.log.file_run.files
        return local_path(files[0].path) if files else self.survey.local_places.root

    @property
    def has_late_queues(self) -> bool:
        """Whether a queue begins after 0, so that fillers are before it, or units of expired messages."""
        return any(queue.begin > 0 for queue in self.queues.values())


@contextlib.contextmanager
def open_old_store(survey: Survey) -> Iterator[OldStore]:
    """Open the log of a store and find the ends of log and queues. Nothing is changed.

    Raises: CorruptFileError if the log is damaged before its tail; ValueError if a size must be given; StoreError,
    OSError.
    """
    sizes = suppose_sizes(survey.places, survey.sizes, replaced=())
    known = with_light_queues(sizes.config, topics_in_database(survey))
    settings = find_settings(survey.places, known)
    config = with_default_sizes(settings.config)
    store = open_store_files(survey, config)
    with store.log:
        repair = plan_log(store)
        store = store.with_sound_log(repair.end)
        end = min(repair.end, store.log.end_finder.find_limit())
        yield OldStore(
            survey,
            settings,
            known,
            frozenset(sizes.known),
            config,
            store.log,
            end,
            repair.end - end,
            store.known_topics,
            dict(_find_queues(survey)),
        )


def _find_queues(survey: Survey) -> Iterator[tuple[QueueId, QueueRange]]:
    """Yield the queues whose units lead into the log, and their queue offsets."""
    with MessageStore.open(survey.root, config=survey.given) as store:
        for queue_id in store.queues():
            with contextlib.suppress(KeyError):  # a queue that only the compaction or the tier has
                queue = store.log_queue(*queue_id)
                begin, end = offset_range(queue)
                if end > 0:
                    yield queue_id, QueueRange(begin, end, queue.has_batches)


def find_assumed_sizes(old: OldStore, needed: Sequence[str], changed: Mapping[str, object]) -> list[str]:
    """Return the sizes that are needed, and that neither the caller nor a file of the old store states."""
    return [name for name in needed if name not in old.shown_sizes and changed.get(name) is None]
