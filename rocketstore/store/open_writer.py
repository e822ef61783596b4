"""open_writer: take the locks of a store, recover it, and make its writer."""

from __future__ import annotations

import contextlib
import os
from typing import Literal

from rocketstore.config import StoreConfig
from rocketstore.disk.busy_threads import BusyThreads
from rocketstore.disk.durable import make_root
from rocketstore.disk.held_directory import HeldDirectory
from rocketstore.dispatch.dispatcher import Dispatcher
from rocketstore.dispatch.topic_lives import topic_notes
from rocketstore.index.index_service import open_index
from rocketstore.limits import LONG_MAX
from rocketstore.logger import logger
from rocketstore.recovery.complete import complete_store
from rocketstore.recovery.settings import find_settings, warn_of
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.state.json_tables import batch_topics
from rocketstore.store.writer import StoreWriter
from rocketstore.survey.broker_config import open_json_tables, open_tables
from rocketstore.survey.open_log import open_log
from rocketstore.survey.requirements import begin_entry, look_under_lock, take_locks
from rocketstore.survey.sizes import describe_kept_sizes

USED_BY_WRITERS = (
    "flush_interval_commit_log",
    "flush_commit_log_least_pages",
    "flush_commit_log_thorough_interval",
    "default_topic_queue_nums",
)


def open_writer(
    entry: str, path: str | os.PathLike[str], mode: Literal["r+", "a"], given: StoreConfig | None
) -> StoreWriter:
    """Take the lock of a store, recover the store, and return its writer.

    Parameters: entry: the name in ENTRIES of the function or command that opens the store. mode: "a" also makes the
    root. given: the caller's configuration.
    Raises: StoreLockedError, UnsupportedFormatError, StoreError, CorruptFileError, OSError.
    """
    survey = begin_entry(entry, path, given)
    root = survey.local_places.root
    if mode == "a" and not root.is_file():
        make_root(root)
    locks = take_locks(survey)
    with contextlib.ExitStack() as stack:
        for lock in locks:
            stack.callback(lock.release)
        held = HeldDirectory(root, [lock.path for lock in locks])
        stack.callback(held.close)
        now = look_under_lock(entry, survey)
        places, stated = now.local_places, now.find_sized_config()
        stated.require_usable(*USED_BY_WRITERS)
        open_json_tables(places, stated).extend_topics(
            {}
        )  # fails now, before any put, if topics.json cannot be extended
        settings = find_settings(places, stated)
        report = complete_store(now, stated, settings)
        warn_of(report.assumptions, root, stacklevel=4)
        kept = describe_kept_sizes(given, settings.config.as_store_config())
        notes = (*(() if kept is None else (kept,)), *report.notes, *topic_notes({}, (), report.doubtful))
        for note in notes:
            logger.warning("%s: %s", root, note)
        config, end = settings.config, report.max_phy_offset
        log = open_log(places, config, whole_to=LONG_MAX)  # nobody else writes, and only complete records are read
        stack.callback(log.close)
        checkpoint = StoreCheckpoint.open(places.checkpoint, _held=held)
        busy = BusyThreads(root)
        index = open_index(places.index, config, checkpoint, busy=busy)
        stack.callback(index.close)
        batches = batch_topics(open_tables(places, config).read_topics())
        dispatcher = Dispatcher(places, config, log, index, batches, held=held)
        opening_notes = (*notes, *report.assumptions)
        writer = StoreWriter(
            places, held, config, locks, log, index, checkpoint, dispatcher, batches, end, busy, opening_notes
        )
        stack.pop_all()  # the writer closes them from now on
    return writer
