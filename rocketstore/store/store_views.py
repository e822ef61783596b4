"""StoreViews: views of the index and of queues, which are kept while a stopped store does not change."""

from __future__ import annotations

from collections.abc import Iterable

from rocketstore.disk.store_path import StorePath
from rocketstore.index.index_service import IndexService, IndexType, require_index_type
from rocketstore.kernels.queue_id import QueueId
from rocketstore.query.coverage import Coverage, IndexView
from rocketstore.query.get_message import QueueView
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.queue.queue_source import StoredQueue
from rocketstore.store.opened_index import OpenedIndex
from rocketstore.store.opened_log import OpenedLog
from rocketstore.store.stamped_values import StampedValues


class StoreViews:
    """Views of the index and of the queues of a store, from which queries and reads answer."""

    def __init__(self, log: OpenedLog, index: OpenedIndex, stamped: StampedValues | None) -> None:
        """Parameters: stamped: keeps views; None to make each view anew."""
        self._log = log
        self._index = index
        self._stamped = stamped
        self._coverage: Coverage | None = None

    def find_coverage(self) -> Coverage:
        """Return the log and its index, and which messages the index may miss. Raises: as of ``OpenedIndex.find``."""
        index, known = self._index.find(), self._coverage
        if known is None or known.index is not index:
            self._coverage = known = Coverage(self._log.log, index)
        return known

    def view_index(self, index_type: IndexType | None) -> IndexView:
        """Return a view of the index, for keys or for tags. Raises: ValueError; as ``find_coverage``."""
        require_index_type(index_type)
        if self._stamped is None:
            return self.find_coverage().look(index_type)
        found: IndexView | None = self._stamped.find(index_type)
        if found is None:
            begin = self._stamped.start_making()
            found = self.find_coverage().look(index_type)
            if (files := _files_of_index(found)) is not None:
                self._stamped.keep(index_type, found, files, begin)
        return found

    def find_kept_queue_view(self, queue_id: QueueId) -> QueueView | None:
        """Return the kept view of a queue; None without one."""
        return None if self._stamped is None else self._stamped.find(queue_id)

    def view_queue(self, queue_id: QueueId, queue: StoredQueue) -> QueueView:
        """Return a view of a queue. Raises: CorruptFileError; OSError."""
        begin = None if self._stamped is None else self._stamped.start_making()
        log = self._log.log if queue.log is None else queue.log  # the first raises the reason why it is not read
        found = QueueView.of_queue(log, queue)
        if self._stamped is not None and (files := _files_of_queue(found)) is not None:
            self._stamped.keep(queue_id, found, files, begin)
        return found


def _files_of_index(view: IndexView) -> Iterable[StorePath] | None:
    """Return the files that show whether a view of an index is still right; None if they do not show it."""
    files = view.log.file_run.files
    if view.files is None or not files or not isinstance(view.key_index, IndexService):
        return None
    return [view.key_index.directory, files[-1].path, *(file.path for file in view.files)]


def _files_of_queue(view: QueueView) -> Iterable[StorePath] | None:
    """Return the files that show whether a view of a queue is still right; None if they do not show it."""
    queue, files = view.queue, view.log.file_run.files
    if type(queue) is not ConsumeQueue or not files or not queue.run.files:
        return None
    return [queue.directory, files[-1].path, queue.run.files[-1].path]
