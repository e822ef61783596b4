"""split: write a store of its own for each topic of a store, or for each group of topics."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from rocketstore.config import SizedConfig, StoreConfig
from rocketstore.convert.convert import (
    describe_sizes,
    require_config_files,
    require_readable,
    target_config,
)
from rocketstore.convert.copy_files import copy_tree
from rocketstore.convert.copy_log import IdFinder, NewLog, read_pieces
from rocketstore.convert.finish_store import finish_store
from rocketstore.convert.left_out import describe_lost_timers, describe_other_data, describe_uncommitted
from rocketstore.convert.old_store import OldStore, open_old_store
from rocketstore.convert.split_report import SplitPart, SplitReport
from rocketstore.convert.stale_ids import StaleId, describe_stale_ids
from rocketstore.convert.timers import copy_timers
from rocketstore.disk.descriptors import descriptor_share
from rocketstore.disk.durable import make_directory, replace_file
from rocketstore.disk.held_file import copy_file
from rocketstore.disk.storage import local_path
from rocketstore.dispatch.topic_lives import first_names
from rocketstore.kernels.queue_id import QueueId
from rocketstore.keywords import suggests_keywords
from rocketstore.messages.arguments import text_list
from rocketstore.messages.topics import is_file_name
from rocketstore.progress import Progress, Report, show_progress
from rocketstore.rebuild.rebuild_report import RebuildReport
from rocketstore.recovery.settings import warn_of
from rocketstore.root_places import SPLIT_WORK
from rocketstore.salvage.new_root import new_directory, require_free_root, require_outside
from rocketstore.state.topic_files import files_of_topics, find_unused_files
from rocketstore.store.message_store import MessageStore
from rocketstore.store.pending.timers import TIMER_TOPIC
from rocketstore.survey.places import LocalPlaces, StorePlaces
from rocketstore.survey.requirements import begin_entry

LEAST_PARTS, MOST_PARTS = 8, 256  # logs that are written at the same time


@suggests_keywords
def split(
    path: str | os.PathLike[str],
    new: str | os.PathLike[str],
    *,
    by: Literal["topic"] = "topic",
    parts: Mapping[str, str | Iterable[str]] | None = None,
    topic: str | Iterable[str] | None = None,
    config: StoreConfig | None = None,
    deleted: bool = False,
    progress: Progress = False,
) -> SplitReport:
    """Write a store of its own for each topic of a stopped store. Nothing in ``path`` is changed.

    Each new store has the records of its topics in the order of the old log, with sizes of files as before, and a
    broker starts on it. It has the entries of its topics in the broker's configuration: topics, the offsets of the
    groups that consume them, and the settings of these groups. Topics of the broker itself, such as those of delayed
    messages, are topics like others. Timers go with their topic.

    Queue offsets do not change, so that groups continue where they were. If a queue begins after 0, the log begins with
    its second file, and fillers are before the first unit in its file, as in a broker's queue. An exception is a light
    queue with messages of several parts: a broker closes the gaps, so that its units move up. ``notes`` name these
    queues. Physical offsets change, as ``convert`` describes. A commit whose half message is in another part keeps the
    old offset.

    Until ``new`` is complete, it has a directory ``rocketstore-split``. If the process is killed, call ``split`` again
    with the same ``new``: it begins anew.

    Parameters
    ----------
    path : the root of a store that was stopped. Repair a crashed or damaged store first.
    new : the directory of the new stores, which is empty, or does not exist. Each store has the name of its topic.
    by : what becomes a store: "topic".
    parts : the topics of each store that has several, by the store's name. Other topics have a store each.
    topic : one or several; only these topics.
    config : settings of the old store, as for ``rebuild``.
    deleted : write stores of deleted topics too.
    progress : True shows a bar on standard error. A function is called with the bytes of the log that
        were read, and all its bytes.

    Returns
    -------
    SplitReport.

    Raises
    ------
    ValueError : a name in ``parts`` cannot be that of a directory, or a topic is in two parts. Others: as ``convert``.

    Source: none.

    Examples:
    >>> report = rocketstore.split("demo", "parts", parts={"all": ["Orders", "Users"]})
    >>> [(part.part, part.records) for part in report.parts]
    [('all', 101)]
    """
    if by != "topic":
        raise ValueError(f"by={by!r}: must be 'topic'")
    plan = PartPlan.of(parts, topic)
    survey = begin_entry("split", local_path(path), config)
    out = local_path(new)
    require_outside(out, map(local_path, [survey.root, *survey.places.log_directories]))
    require_free_root(out, SPLIT_WORK, is_split_store)
    with open_old_store(survey) as old:
        files = require_config_files(old)
        target = target_config(old, {})
        unreadable = require_readable(old, target)
        with new_directory(out, SPLIT_WORK, is_split_store) as inside, show_progress(progress, "split") as shown:
            report = _split(old, plan, target, files, inside, shown, deleted=deleted)
    parts_of_out = tuple(part._replace(path=out / part.part) for part in report.parts)
    report = replace(report, out=out, parts=parts_of_out, assumptions=(*unreadable, *report.assumptions))
    warn_of(report.assumptions, survey.root, stacklevel=4)
    return report


def is_split_store(entry: Path) -> bool:
    """Return whether a killed call can have written a directory: a store that no writer has opened."""
    places = StorePlaces.of(entry)
    return places.default_log.is_dir() and not places.lock.exists()


@dataclass(frozen=True)
class PartPlan:
    """Which store each topic gets. Attributes: names: of stores of several topics, by topic. topics: None for all."""

    names: Mapping[str, str]
    topics: frozenset[str] | None

    @classmethod
    def of(cls, parts: Mapping[str, str | Iterable[str]] | None, topic: str | Iterable[str] | None) -> PartPlan:
        """Raises: ValueError, TypeError."""
        names: dict[str, str] = {}
        for part, given in (parts or {}).items():
            if not is_file_name(part) or part == SPLIT_WORK:
                raise ValueError(f"parts: {part!r} cannot be the name of a directory")
            topics_of_part = text_list(given, "parts")
            if not topics_of_part:
                raise ValueError(f"parts: {part!r} has no topic: give the names of its topics")
            for name in topics_of_part:
                if names.get(name, part) != part:
                    raise ValueError(f"parts: topic {name!r} is in {names[name]!r} and in {part!r}")
                names[name] = part
        topics = text_list(topic, "topic")
        return cls(names, None if topics is None else frozenset(topics))

    def part_of(self, topic: str) -> str | None:
        """Return the store of a topic; None if it gets none."""
        if self.topics is not None and topic not in self.topics:
            return None
        part = self.names.get(topic, topic)
        return part if is_file_name(part) and part != SPLIT_WORK else None


class TopicCounts(NamedTuple):
    """The topics of a log. Attributes: parts: the topics of each new store, by its name. left_out: the number of
    records of each topic without a new store.
    """

    parts: dict[str, list[str]]
    left_out: dict[str, int]


def _count_topics(old: OldStore, plan: PartPlan, *, deleted: bool) -> TopicCounts:
    """Read the topics of all records, and decide which store each topic gets."""
    counts: Counter[str] = Counter()
    for batch in old.log.scan(old.begin, old.end, columns=("topic",)):
        counts.update(batch.topic.to_pylist())
    parts: dict[str, list[str]] = {}
    left_out = {}
    for topic in sorted(counts):
        part = plan.part_of(topic)
        if part is None or (old.known_topics.was_deleted(topic) and not deleted):
            left_out[topic] = counts[topic]
        else:
            parts.setdefault(part, []).append(topic)
    return TopicCounts(dict(sorted(parts.items())), left_out)


def _split(
    old: OldStore,
    plan: PartPlan,
    target: SizedConfig,
    files: Mapping[str, bytes],
    inside: Path,
    progress: Report,
    *,
    deleted: bool,
) -> SplitReport:
    """Write all stores, some hundred at the same time, since the log of each has a file open.

    Parameters: files: of the broker's configuration, by name.
    Returns: a report with the paths inside the directory in which they are written.
    """
    found = _count_topics(old, plan, deleted=deleted)
    names, step = list(found.parts), descriptor_share(4, least=LEAST_PARTS, most=MOST_PARTS)
    rounds = [names[first : first + step] for first in range(0, len(names), step)]
    finished = []
    for number, chosen in enumerate(rounds):
        topics = {name: found.parts[name] for name in chosen}
        logs = _copy_parts(old, topics, target, inside, progress, (number, len(rounds)))
        finished += [
            _finish_part(old, name, log, topics[name], target, files, deleted=deleted) for name, log in logs.items()
        ]
    stale = tuple(row for part in finished for row in part.stale_ids)
    queues = {queue_id for part in finished for queue_id in part.queues}
    reports = [part.report for part in finished]
    return SplitReport(
        out=inside,
        parts=tuple(part.row for part in finished),
        stale_ids=stale,
        notes=(
            *_describe_left_out(old, plan, found, queues, files),
            *describe_sizes(old, target, {}, inside.parent),
            *(text for part in finished for text in part.notes),
            *describe_stale_ids(stale),
        ),
        assumptions=tuple(dict.fromkeys(text for report in reports for text in report.assumptions)),
        deleted={queue: count for report in reports for queue, count in report.deleted.items()},
        undeclared=tuple(sorted({name for report in reports for name in report.undeclared})),
        doubtful=tuple(sorted({queue for report in reports for queue in report.doubtful})),
    )


def _copy_parts(
    old: OldStore,
    topics: Mapping[str, list[str]],
    target: SizedConfig,
    inside: Path,
    progress: Report,
    rounds: tuple[int, int],
) -> dict[str, NewLog]:
    """Return the new logs of some parts. They have all their records, and are closed.

    Parameters: rounds: the number of this round, from 0 on, and the number of all rounds. Each reads the old log.
    """
    with contextlib.ExitStack() as open_logs:
        logs = {
            name: open_logs.enter_context(_begin_log(old, StorePlaces.of(inside / name), target)) for name in topics
        }
        _copy_records(old, topics, logs, progress, rounds)
    return logs


def _begin_log(old: OldStore, places: LocalPlaces, target: SizedConfig) -> NewLog:
    """Make the directories of one new store. Return its empty log."""
    size = target.mapped_file_size_commit_log
    begin = size if old.begin > 0 or old.has_late_queues else 0
    make_directory(places.root)
    return NewLog(places.default_log, size, begin, old)


def _copy_records(
    old: OldStore,
    topics: Mapping[str, list[str]],
    logs: Mapping[str, NewLog],
    progress: Report,
    rounds: tuple[int, int],
) -> None:
    """Append each record of the old log to the new log of its topic. Parameters: rounds: as for ``_copy_parts``."""
    part_of = {topic: name for name, names in topics.items() for topic in names}
    ids, (number, count), size_of_log = IdFinder(), rounds, old.end - old.begin
    for piece in read_pieces(old.log, old.begin, old.end):
        in_piece, codes = np.unique(piece.topics, return_inverse=True)
        found = ids.find(piece)
        rows_of: dict[str, list[int]] = {}
        for code, topic in enumerate(in_piece.tolist()):
            if topic in part_of:
                rows_of.setdefault(part_of[topic], []).append(code)
        for name, chosen in rows_of.items():
            logs[name].copy(piece, np.flatnonzero(np.isin(codes, chosen)), found)
        progress(number * size_of_log + piece.end - old.begin, count * size_of_log)


class FinishedPart(NamedTuple):
    """One complete store. Attributes: row: of the report. queues: the ids of its queues."""

    row: SplitPart
    report: RebuildReport
    queues: frozenset[QueueId]
    stale_ids: tuple[StaleId, ...]
    notes: tuple[str, ...]


def _finish_part(
    old: OldStore,
    name: str,
    log: NewLog,
    topics: list[str],
    target: SizedConfig,
    files: Mapping[str, bytes],
    *,
    deleted: bool,
) -> FinishedPart:
    """Write the other parts of a store, whose log is complete."""
    places = StorePlaces.of(log.directory.parent)
    ends = {queue_id: queue.end for queue_id, queue in old.queues.items() if queue_id.topic in topics}
    report, notes = finish_store(old, log, places, target, files_of_topics(files, topics), ends, deleted=deleted)
    queues = _read_ends(places, target)
    light = {queue_id.topic for queue_id in queues} - {*topics}
    if light:
        for file, data in files_of_topics(files, {*topics, *light}).items():
            replace_file(places.config_file(file), data)
    notes = tuple(f"{name}: {text}" for text in (*notes, *_copy_broker_files(old, places, log, topics)))
    moved = sorted(queue for queue, end in queues.items() if queue in old.queues and end != old.queues[queue].end)
    if moved:
        names = first_names(f"{topic}/{queue_id}" for topic, queue_id in moved)
        notes += (f"{name}: queues with messages of other parts too, whose queue offsets moved up: {names}",)
    row = SplitPart(
        part=name,
        path=places.root,
        topics=tuple(topics),
        records=log.records,
        bytes=log.bytes,
        min_phy_offset=log.begin,
        max_phy_offset=log.writer.phy_offset,
        queues=report.queues,
        index_items=report.index_items,
    )
    return FinishedPart(row, report, frozenset(queues), log.stale_ids.rows(), notes)


def _read_ends(places: LocalPlaces, config: SizedConfig) -> dict[QueueId, int]:
    """Return the queue offset behind the last message of each queue of a store."""
    with MessageStore.open(places.root, config=config) as store:
        return {queue_id: store.log_queue(*queue_id).max_queue_offset for queue_id in store.queues()}


def _copy_broker_files(old: OldStore, places: LocalPlaces, log: NewLog, topics: list[str]) -> list[str]:
    """Copy the timers with their topic, and the compacted messages of topics. Return notes."""
    old_places = old.survey.local_places
    notes: list[str] = []
    if TIMER_TOPIC in topics:
        notes += describe_lost_timers(copy_timers(old_places, places, log.offsets))
    compacted = [topic for topic in topics if (old_places.compacted_logs / topic).is_dir()]
    for topic in compacted:
        copy_tree(old_places.compacted_logs / topic, places.compacted_logs / topic)
        copy_tree(old_places.compacted_queues / topic, places.compacted_queues / topic)
    if compacted:
        for path in old_places.compaction.iterdir():
            if path.is_file():  # the positions up to which topics are compacted
                copy_file(path, places.compaction / path.name)
    return notes


def _describe_left_out(
    old: OldStore, plan: PartPlan, found: TopicCounts, queues: Collection[QueueId], files: Mapping[str, bytes]
) -> Iterator[str]:
    """Yield notes on what no new store has."""
    chosen = {topic: count for topic, count in found.left_out.items() if plan.topics is None or topic in plan.topics}
    if chosen:
        names = first_names(f"{topic}: {count}" for topic, count in chosen.items())
        yield f"messages of topics that were deleted, or whose name is not that of a directory, are left out: {names}"
    topics = {topic for names in found.parts.values() for topic in names}
    lost = sorted(
        queue for queue in old.queues if queue not in queues and queue.topic not in {*found.left_out, *topics}
    )
    if lost and plan.topics is None:
        names = first_names(f"{queue.topic}/{queue.queue_id}: {old.queues[queue].end}" for queue in lost)
        yield f"queues whose messages have all expired are left out, with their next queue offsets: {names}"
    if unused := find_unused_files(files):
        yield f"files of config that are not divided by topics are left out: {', '.join(unused)}"
    places = old.survey.local_places
    for path in (places.pop_database, places.epoch_file):
        if path.exists():
            yield f"{path}: is left out"
    yield from describe_other_data(old)
    yield from describe_uncommitted(old)
