"""PartsFlush: writes the log, the queues, the index and topics.json of a store to the disk, then the checkpoint."""

from __future__ import annotations

from rocketstore.compat import Compat
from rocketstore.dispatch.dispatcher import Dispatcher
from rocketstore.dispatch.queue_ids import QueueIds
from rocketstore.dispatch.reput import ReputMessageService
from rocketstore.log.log_writer import LogWriter
from rocketstore.state.checkpoint import StoreCheckpoint


class PartsFlush:
    """Flushes dispatched records, units and items in the order in which a reader needs them after a loss of power."""

    def __init__(
        self,
        log: LogWriter,
        reput: ReputMessageService,
        dispatcher: Dispatcher,
        queue_ids: QueueIds,
        checkpoint: StoreCheckpoint,
        compat: Compat,
    ) -> None:
        self._log = log
        self._reput = reput
        self._dispatcher = dispatcher
        self._queue_ids = queue_ids
        self._checkpoint = checkpoint
        self._compat = compat

    def flush_dispatched(self) -> None:
        """Write all records that are dispatched, their units and items, and then the checkpoint to the disk."""
        dispatcher, checkpoint = self._dispatcher, self._checkpoint
        with self._reput.lock:
            phy_offset, timestamp = dispatcher.last_phy_offset, dispatcher.last_store_timestamp
            self._log.files.flush(self._reput.dispatched)
            dispatcher.flush()
            self._queue_ids.save()
            if phy_offset >= 0:
                checkpoint.logics_msg_timestamp = timestamp
                if self._compat.has_logics_physical_offset:
                    checkpoint.logics_physical_offset = phy_offset
            self._log.save_checkpoint()

    def flush_log(self, *, has_waiting_puts: bool) -> None:
        """Write the log to the disk. If puts wait for it, save topics.json, so that a broker knows their topics.

        Otherwise save the checkpoint.
        """
        self._log.files.flush(self._log.files.phy_offset)
        if has_waiting_puts:
            self._queue_ids.save()
        else:
            self._log.save_checkpoint()
