"""Plan what recovery does to the consume queues: cut their ends, and find the first record without a unit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rocketstore.disk.holes import nonzero_end
from rocketstore.dispatch.topic_lives import DeletedTopics, TopicLives
from rocketstore.errors import StoreError
from rocketstore.limits import LONG_MAX
from rocketstore.recovery.plan_log import LogRepair, find_file_before
from rocketstore.recovery.queues import (
    MissingUnits,
    RecoveredQueue,
    empty_ext_files,
    find_missing,
    find_queues,
    step_back,
    units_agree,
)
from rocketstore.recovery.recovery_report import RecoveryAction
from rocketstore.recovery.store_files import StoreFiles
from rocketstore.survey.owners import require_log_directory


@dataclass(frozen=True)
class QueueRepair:
    """The plan for the queues.

    Attributes: queues: where each queue ends after the repair, if it is cut. begin: the physical offset from which
    records are dispatched again, LONG_MAX if all records have their units. lives: decides which of them are left out;
    None to leave out no records. deleted: the records that are left out.
    """

    queues: tuple[RecoveredQueue, ...]
    begin: int
    lives: TopicLives | None
    deleted: DeletedTopics
    steps: tuple[RecoveryAction, ...] = ()


def find_last_units(store: StoreFiles) -> list[RecoveredQueue]:
    """Return the queues with their last units, where a clean stop leaves them."""
    return [queue.at_last_file() for queue in find_queues(store)]


def are_ends_sound(store: StoreFiles, log: LogRepair, queues: list[RecoveredQueue]) -> bool:
    """Return whether all queues end with the unit of a record, as a clean stop leaves them."""
    if not log.checked_from < find_newest_end(queues) <= log.end:
        return False
    return all(units_agree(store.log, queues, store.batch_topics))


def plan_queues_after_stop(store: StoreFiles, log: LogRepair, queues: list[RecoveredQueue]) -> QueueRepair | None:
    """Plan to dispatch the records without units in the part of the log that was read. None: a queue lacks more.

    A missing queue is not noticed for records before the newest unit: its topic may have been deleted.
    """
    others_begin = find_newest_end(queues)
    lives = TopicLives(store.known_topics)
    missing = _find_missing(store, log.end, log.checked_from, queues, lives, others_begin)
    left_out = replace(lives.result(missing.left_out), doubtful=())  # a queue in doubt is not built here
    return None if missing.wrong else QueueRepair((), missing.first, lives, left_out)


def find_newest_end(queues: list[RecoveredQueue]) -> int:
    """Return where the record of the newest unit ends, 0 without units."""
    return max((queue.phy_offset for queue in queues), default=0)


def find_queue_ends(store: StoreFiles) -> list[RecoveredQueue]:
    """Return the queues with their last sound units, by the units alone. Raises: StoreError if the log is missing."""
    flushed, minimum = store.checkpoint.logics_physical_offset, store.log.min_phy_offset
    queues = [queue.before(LONG_MAX, minimum) for queue in find_queues(store, flushed)]
    if not store.log.file_run.files and any(path for queue in queues for path in queue.files()):
        require_log_directory(store.places, store.config)
        raise StoreError(
            f"{store.root}: the commit log is gone, but its queues are there: restore it, "
            "or let rocketstore recover STORE --policy broker delete them, as a broker does at its next start"
        )
    return queues


def plan_queues(
    store: StoreFiles,
    log: LogRepair,
    queues: list[RecoveredQueue],
    *,
    index_begin: int,
    whole_log: bool,
    deleted: bool,
) -> QueueRepair:
    """Plan to cut each queue behind its last unit that agrees with its record, and to dispatch the missing records.

    Parameters: queues: as ``find_queue_ends`` returns them. index_begin: where records lack items; those that lack
    units too are found from there on. whole_log: look for missing units in the whole log. deleted: dispatch the records
    of deleted topics too.
    """
    minimum = store.log.min_phy_offset
    queues = [_before_wrong_unit(queue, store, log.end) for queue in queues]
    queues = step_back(store.log, queues, log.end, store.batch_topics)
    begin = min((max(queue.phy_offset, minimum) for queue in queues), default=minimum)
    begin = min(begin, max(index_begin, minimum))
    if not store.last_exit_ok:  # a queue that was made after the checkpoint may be missing
        checkpoint = store.checkpoint
        phy_offset = checkpoint.logics_physical_offset or LONG_MAX
        begin = min(begin, find_file_before(store, checkpoint.logics_msg_timestamp, phy_offset))
    if whole_log or _is_queue_missing(store, queues) or any(queue.begins_at for queue in queues):
        begin = minimum
    lives = None if deleted else TopicLives(store.known_topics)
    missing = _find_missing(store, log.end, begin, queues, lives)
    while missing.wrong:
        queues = [queue.emptied() if queue.queue in missing.wrong else queue for queue in queues]
        lives = None if deleted else TopicLives(store.known_topics)
        missing = _find_missing(store, log.end, minimum, queues, lives)
    left_out = DeletedTopics() if lives is None else lives.result(missing.left_out)
    return QueueRepair(tuple(queues), missing.first, lives, left_out, tuple(_queue_steps(store, queues)))


def _before_wrong_unit(queue: RecoveredQueue, store: StoreFiles, end: int) -> RecoveredQueue:
    first_wrong = min(queue.first_wrong(store.log), end)
    return queue.before(first_wrong, store.log.min_phy_offset) if first_wrong < queue.phy_offset else queue


def _is_queue_missing(store: StoreFiles, queues: list[RecoveredQueue]) -> bool:
    """Return whether a topic has some of the queues that topics.json declares, but not all of them."""
    found = {queue.queue for queue in queues}
    known = {topic for topic, _ in found}
    topics = [topic for topic in store.topics.values() if topic.topic_name in known]
    return any((topic.topic_name, i) not in found for topic in topics for i in range(topic.write_queue_nums))


def _find_missing(
    store: StoreFiles,
    end: int,
    begin: int,
    queues: list[RecoveredQueue],
    lives: TopicLives | None,
    others_begin: int = 0,
) -> MissingUnits:
    """Return the records without units, and the queues that lack more units, which the log may still have.

    Parameters: begin, end: the part of the log that is searched. lives, others_begin: as for ``find_missing``.
    """
    if begin >= end:
        return MissingUnits(begin, set(), {})
    missing = find_missing(store, begin, end, queues, lives, others_begin)
    if begin == store.log.min_phy_offset and others_begin == 0:
        wrong = missing.wrong & {queue.queue for queue in queues if queue.unit is not None}
        return missing._replace(wrong=wrong)
    return missing


def _queue_steps(store: StoreFiles, queues: list[RecoveredQueue]) -> Iterator[RecoveryAction]:
    yield from (RecoveryAction(path, "delete") for path in empty_ext_files(store))
    for queue in queues:
        for start, name, size in reversed(queue.files()):
            path, kept = Path(name), queue.end - start
            if kept <= 0:
                yield RecoveryAction(path, "delete")
            elif size > kept and (last := nonzero_end(path, kept, size)) > kept:
                yield RecoveryAction(path, "zero", kept, last - kept)
