"""open_writer: take the locks of a store, recover it, and make its writer."""

from __future__ import annotations

import contextlib
from pathlib import Path

from rocketstore.config import StoreConfig
from rocketstore.disk.busy_threads import BusyThreads
from rocketstore.disk.descriptors import require_descriptors_to_write
from rocketstore.disk.durable import make_root
from rocketstore.disk.held_directory import HeldDirectory
from rocketstore.dispatch.dispatcher import Dispatcher
from rocketstore.index.index_service import open_index
from rocketstore.logger import logger
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.recovery.complete import complete_store
from rocketstore.recovery.settings import find_settings, warn_of
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.state.json_tables import batch_topics
from rocketstore.store.writer import StoreWriter
from rocketstore.survey.broker_config import open_json_tables, open_tables
from rocketstore.survey.formats import look_at_store, require_file_log
from rocketstore.survey.open_log import open_log
from rocketstore.survey.owners import acquire_locks, require_log_directory, require_own_places
from rocketstore.survey.places import StorePlaces
from rocketstore.survey.sizes import require_batch_size, require_new_place, writing_config

USED_BY_WRITERS = (
    "flush_interval_commit_log",
    "flush_commit_log_least_pages",
    "flush_commit_log_thorough_interval",
    "default_topic_queue_nums",
)


def open_writer(root: Path, mode: str, config: StoreConfig | None) -> StoreWriter:
    """Take the lock of a store, recover the store, and return its writer.

    Raises: StoreLockedError, UnsupportedFormatError, StoreError, CorruptFileError, OSError.
    """
    require_descriptors_to_write(root)
    if mode == "a":
        if not root.exists():
            require_own_places(root, config or StoreConfig())  # before any file is made
        if not root.is_file():
            make_root(root)
        require_new_place(root, config or StoreConfig())
    require_file_log(root, config or StoreConfig(), "written")
    layout = look_at_store(root, config)
    layout.require_written_queues("written")
    layout.require_config_files("written")
    if StorePlaces.of(root).queues(ConsumeQueue).is_dir():
        require_log_directory(root, config or StoreConfig())
    locks = acquire_locks(root, config or StoreConfig())
    with contextlib.ExitStack() as stack:
        for lock in locks:
            stack.callback(lock.release)
        place = HeldDirectory(root, [lock.path for lock in locks])
        stack.callback(place.close)
        config = writing_config(root, config)
        config.require_usable(*USED_BY_WRITERS)
        tables = open_json_tables(StorePlaces.of(root), config)
        tables.extend_topics({})  # fails now, before any put, if topics.json cannot be extended
        if batch_topics(tables.read_topics()):
            require_batch_size(config)
        settings = find_settings(root, config)
        report = complete_store(root, config, settings)
        warn_of(report.assumptions, root, stacklevel=5)
        for note in report.notes:
            logger.warning("%s: %s", root, note)
        config, end = settings.config, report.max_phy_offset
        places = StorePlaces.of(root, config)
        log = open_log(places, config, whole_to=end)
        stack.callback(log.close)
        checkpoint = StoreCheckpoint.open(places.checkpoint, _held=place)
        busy = BusyThreads(root)
        index = open_index(places.index, config, checkpoint, busy=busy)
        stack.callback(index.close)
        batches = batch_topics(open_tables(places, config).read_topics())
        dispatcher = Dispatcher(root, config, log, index, batches, held=place)
        writer = StoreWriter(place, config, locks, log, index, checkpoint, dispatcher, batches, end, busy)
        stack.pop_all()  # the writer closes them from now on
    return writer
