"""NewStore: the queues and the index of the store that salvage writes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from rocketstore.config import SizedConfig, StoreConfig
from rocketstore.disk.durable import sync_path
from rocketstore.disk.storage import local_path
from rocketstore.disk.work_threads import WorkThreads, work_threads
from rocketstore.dispatch.dispatcher import Dispatcher
from rocketstore.dispatch.topic_lives import LeftOutRecords
from rocketstore.index.index_service import open_index
from rocketstore.kernels.queue_id import QueueId
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.recovery.apply import save_checkpoint
from rocketstore.recovery.store_files import StoreFiles
from rocketstore.salvage.copy import LogCopy
from rocketstore.state.abort import make_abort
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.state.json_tables import batch_topics
from rocketstore.survey.broker_config import open_tables
from rocketstore.survey.open_log import open_log
from rocketstore.survey.places import LocalPlaces
from rocketstore.survey.sizes import save_settings
from rocketstore.survey.survey import survey_store


class RunPart(NamedTuple):
    """The requests, REQUEST[n], and items, ITEM[n], of the records of a run from ``begin`` to ``end``, old offsets."""

    begin: int
    end: int
    requests: np.ndarray
    items: np.ndarray


class NewStore:
    """Builds queues and index of the new log in a thread, while the log is written."""

    def __init__(
        self,
        places: LocalPlaces,
        config: SizedConfig,
        copy: LogCopy,
        log: CommitLog,
        queues: Sequence[QueueId],
        checkpoint: StoreCheckpoint,
        dispatcher: Dispatcher,
        threads: WorkThreads,
    ) -> None:
        """Parameters: queues: by the numbers in requests. checkpoint: of the new store. threads: two WorkThreads."""
        self.config, self.copy, self.log, self.queues = config, copy, log, queues
        self.places, self.checkpoint, self.dispatcher, self.threads = places, checkpoint, dispatcher, threads
        self.built = copy.phy_offset
        self.building = self.syncing = threads.submit(lambda: None)

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, places: LocalPlaces, config: SizedConfig, stated: StoreConfig, copy: LogCopy, queues: Sequence[QueueId]
    ) -> Iterator[Self]:
        """Open the parts of the new store for a ``with`` block, and close them at its end.

        If a part cannot be opened, the open parts are closed.

        Parameters: stated: ``config`` without the settings that are assumed, which are not saved.
        """
        save_settings(places, stated)
        with contextlib.ExitStack() as stack:
            stack.callback(copy.close)
            log = stack.enter_context(open_log(places, config, whole_to=LONG_MAX))  # only copied records are read
            checkpoint = StoreCheckpoint.open(places.checkpoint)
            batches = batch_topics(open_tables(places).read_topics())
            index = None
            if config.message_index_enable:
                index = stack.enter_context(open_index(places.index, config, checkpoint))
            dispatcher = Dispatcher(places, config, log, index, batches)
            stack.callback(dispatcher.close)
            threads = stack.enter_context(work_threads(2, "rocketstore-salvage"))
            yield cls(places, config, copy, log, queues, checkpoint, dispatcher, threads)

    def read_and_build(self, left_out: Mapping[QueueId, np.ndarray]) -> None:
        """Build up to the present end of the log, from its records: an INNER_BASE may have been changed.

        Parameters: left_out: old physical offsets of records that get no unit in a queue, int64[n].
        """
        moves = self.copy.take_moves()
        self._submit(self._dispatch, at_new_offsets(left_out, *moves), self.built, self.copy.phy_offset)

    def build(self, part: RunPart, queue_offsets: np.ndarray, left_out: Mapping[QueueId, np.ndarray]) -> None:
        """Build units and items of the records that were just copied. Their requests and items are changed.

        Parameters: queue_offsets: int64[n]; a negative one means that the record has its old one. left_out: as for
        ``read_and_build``.
        """
        begins, moves = self.copy.take_moves()
        for rows in (part.requests, part.items):
            rows["phy_offset"] += find_moves(rows["phy_offset"], begins, moves)
        np.copyto(part.requests["msg_base_offset"], queue_offsets, where=queue_offsets >= 0)
        self._submit(self._build, at_new_offsets(left_out, begins, moves), part, self.copy.last_phy_offset)

    def _dispatch(self, left_out: LeftOutRecords, begin: int, end: int) -> None:
        self.dispatcher.leave_out(left_out)
        self.dispatcher.dispatch(begin, end)

    def _build(self, left_out: LeftOutRecords, part: RunPart, last_phy_offset: int) -> None:
        self.dispatcher.leave_out(left_out)
        self.dispatcher.build_consume_queues(part.requests, self.queues)
        self.dispatcher.build_index(part.items, last_phy_offset)

    def _submit(self, build: Callable[..., None], *args: object) -> None:
        """Build in the thread, and flush the log so far: at the end that would take long."""
        self.building.result()
        self.building = self.threads.submit(build, *args)
        if self.syncing.has_ended:
            self.syncing.result()
            self.syncing = self.threads.submit(self.copy.sync, self.built)
        self.built = self.copy.phy_offset

    def finish(self) -> None:
        """Wait for the threads, flush all files, and write the checkpoint."""
        self.building.result()
        self.syncing.result()
        self.dispatcher.flush()
        self.log.refresh()
        make_abort(self.places.abort)
        for file in self.log.file_run.files:
            sync_path(local_path(file.path))
        store = StoreFiles(survey_store(self.places.root), self.config, self.log, self.checkpoint, last_exit_ok=False)
        save_checkpoint(store, self.copy.last_phy_offset)


def at_new_offsets(left_out: Mapping[QueueId, np.ndarray], begins: np.ndarray, moves: np.ndarray) -> LeftOutRecords:
    """Return records at their new physical offsets. Parameters: begins, moves: as of ``LogCopy.take_moves``."""
    return LeftOutRecords({queue: old + find_moves(old, begins, moves) for queue, old in left_out.items()})


def find_moves(phy_offsets: np.ndarray, begins: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Return how far records moved, int64[n], bytes. Parameters: begins, moves: as of ``LogCopy.take_moves``."""
    if len(moves) and moves[0] == moves[-1] and (moves == moves[0]).all():
        return np.broadcast_to(moves[0], phy_offsets.shape)
    found: np.ndarray = moves[begins.searchsorted(phy_offsets, "right") - 1]
    return found
