"""Build the queues and the index of a new log, and write the other files of its store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rocketstore.config import SizedConfig
from rocketstore.convert.copy_files import copy_tree
from rocketstore.convert.copy_log import NewLog
from rocketstore.convert.left_out import describe_lost_timers, describe_other_data
from rocketstore.convert.old_store import OldStore
from rocketstore.convert.timers import copy_timers
from rocketstore.disk.durable import make_directory, replace_file, sync_path
from rocketstore.disk.storage import local_path
from rocketstore.dispatch.dispatcher import Dispatcher
from rocketstore.kernels.queue_id import QueueId
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS
from rocketstore.queue.batch_consume_queue_writer import BatchConsumeQueueWriter
from rocketstore.rebuild.build import Build
from rocketstore.rebuild.rebuild import CopiedFrom, Rebuilder, RebuildOptions
from rocketstore.rebuild.rebuild_report import RebuildReport
from rocketstore.recovery.apply import save_checkpoint
from rocketstore.recovery.settings import LEARNED
from rocketstore.recovery.store_files import StoreFiles, open_store_files
from rocketstore.state.json_tables import batch_topics
from rocketstore.survey.broker_config import open_tables
from rocketstore.survey.places import LocalPlaces
from rocketstore.survey.sizes import save_settings
from rocketstore.survey.survey import survey_store
from rocketstore.text_values import format_count

BUILT = "built"  # a directory beside the new log, for its queues and its index
EMPTY_UNIT = 91  # bytes: the size in the unit that ends a queue without messages, which is that of the least record
MEMORY = 1 << 30  # bytes: the approximate limit while queues are built
THREADS = 2


class FinishedStore(NamedTuple):
    """The result of ``finish_store``. Attributes: report: of queues and index. notes: lines for people."""

    report: RebuildReport
    notes: tuple[str, ...]


def finish_store(
    old: OldStore,
    new_log: NewLog,
    places: LocalPlaces,
    config: SizedConfig,
    config_files: Mapping[str, bytes],
    queues: Mapping[QueueId, int],
    *,
    deleted: bool,
) -> FinishedStore:
    """Write all parts of a store besides its log.

    Parameters: new_log: which is complete and closed. places: of the new store. config: the settings of the new store.
    config_files: the files of the broker's configuration by name. queues: the queue offset after the last message of
    each queue that must exist. deleted: as for ``rebuild``.
    """
    make_directory(places.config)
    for name, data in config_files.items():
        replace_file(places.config_file(name), data)
    stated = {name: getattr(old.stated, name) for name in LEARNED}
    save_settings(places, replace(config, **stated))
    report = _build(old, places, config, deleted=deleted)
    notes = _write_ends(places, config, queues)
    _write_checkpoint(places, config, new_log)
    return FinishedStore(report, notes)


def _build(old: OldStore, places: LocalPlaces, config: SizedConfig, *, deleted: bool) -> RebuildReport:
    """Build queues and index in a directory, and move them beside the log."""
    options = RebuildOptions(MEMORY, THREADS, deleted=deleted, copied_from=CopiedFrom(old.known_topics, old.settings))
    build = Build(True, config.message_index_enable, None, is_in_place=False)
    built = places.root / BUILT
    report = Rebuilder.of(survey_store(places.root, config), build, options).build_in(built)
    for path in built.iterdir():
        path.rename(places.root / path.name)
    built.rmdir()
    sync_path(places.root)
    return report


def _write_ends(places: LocalPlaces, config: SizedConfig, queues: Mapping[QueueId, int]) -> tuple[str, ...]:
    """Give the queues whose messages have all expired their next queue offset, by a unit of an expired message.

    Returns: notes on queues that ended behind the last message that the log has.
    """
    ends = {queue_id: end for queue_id, end in queues.items() if not _has_units(places, queue_id)}
    if not ends:
        return ()
    store = open_store_files(survey_store(places.root, config), config)
    with store.log:
        dispatcher = Dispatcher(places, config, store.log, None, batch_topics(open_tables(places).read_topics()))
        for queue_id, end in ends.items():
            writer = dispatcher.queue(*queue_id)
            columns = (np.array([value], np.int64) for value in (0, 0, end - 1))
            phy_offset, tags_code, queue_offset = columns
            size = np.array([EMPTY_UNIT], np.int32)
            if isinstance(writer, BatchConsumeQueueWriter):
                one = np.ones(1, np.int16)
                writer.put_units(phy_offset, size, tags_code, np.zeros(1, np.int64), queue_offset, one)
            else:
                writer.put_units(phy_offset, size, tags_code, queue_offset)
        dispatcher.flush()
        dispatcher.close()
    return (
        f"{format_count(len(ends), 'queue')} without messages in the log got a unit of an expired message, so that the "
        "next message gets the same queue offset as before",
    )


def _has_units(places: LocalPlaces, queue_id: QueueId) -> bool:
    return any(any(places.queue(kind, *queue_id).glob("[0-9]*")) for kind in QUEUE_KINDS)


def _write_checkpoint(places: LocalPlaces, config: SizedConfig, new_log: NewLog) -> None:
    """Flush the files of the log, and write a checkpoint by which a broker's first start keeps everything."""
    opened = open_store_files(survey_store(places.root, config), config)
    with opened.log as log:
        for file in log.file_run.files:
            sync_path(local_path(file.path))
        store = StoreFiles(opened.survey, config, log, opened.checkpoint, last_exit_ok=True)
        save_checkpoint(store, new_log.writer.last_phy_offset)


def copy_broker_files(old: OldStore, places: LocalPlaces, new_log: NewLog) -> list[str]:
    """Copy the broker's timers, its compacted topics and its popped messages. Return notes on what is left out."""
    old_places = old.survey.local_places
    lost_timers = copy_timers(old_places, places, new_log.offsets)
    copy_tree(old_places.compaction, places.compaction)
    copy_tree(old_places.pop_database, places.pop_database)
    return [*describe_lost_timers(lost_timers), *describe_other_data(old)]
