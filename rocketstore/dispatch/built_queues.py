"""BuiltQueues: queues that are built from the log in temporary files, where the store's own queues cannot be read."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

from rocketstore.config import SizedConfig, StoreConfig
from rocketstore.disk.closable import Closable
from rocketstore.disk.storage import is_remote
from rocketstore.dispatch.dispatcher import Dispatcher
from rocketstore.dispatch.light_queues import with_more
from rocketstore.dispatch.request_chunks import RequestChunks
from rocketstore.dispatch.topic_lives import KnownTopics, TopicLives
from rocketstore.errors import StoreError
from rocketstore.log.commit_log import CommitLog
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.survey.places import StorePlaces
from rocketstore.survey.sizes import with_default_sizes
from rocketstore.text_values import format_count

MAX_LOG = 8 << 30  # bytes of a log that is read for its queues
MAX_UNITS = 1 << 26  # 1.25 GiB of files
FILE_SIZE = 20_000 * 20  # bytes; small, since a store may have thousands of queues


class BuiltQueues(Closable):
    """The queues that the records of a log give. When the log has grown, they get its new units.

    No topic counts as deleted. Queues without a record in the log are missing.
    """

    def __init__(self, log: CommitLog, config: StoreConfig, known: KnownTopics) -> None:
        """Parameters: config: of the store. known: the topics of the store."""
        self._log = log
        sizes = with_default_sizes(replace(config, message_index_enable=False, enable_consume_queue_ext=False))
        # A broker stores the offsets of a message in its light queues only if it makes these queues.
        self._config = replace(
            sizes, mapped_file_size_consume_queue=FILE_SIZE, enable_multi_dispatch=True, enable_lmq=True
        )
        self._max_log = min(MAX_LOG, config.remote_copy_limit) if is_remote(log.directories[0]) else MAX_LOG
        self._known = known
        self._lives = TopicLives(known)
        self._lock = threading.Lock()
        self._files: _TemporaryFiles | None = None

    def update(self) -> Path:
        """Build the units of the present log, and return the directory of the queues.

        Raises: StoreError for a log that is too long or has too many units; CorruptFileError; OSError.
        """
        with self._lock:
            end = self._log.max_phy_offset
            files = self._files
            if files is None or files.process != os.getpid() or end < files.end:
                self._lives = TopicLives(self._known)
                files = self._begin()
            if files.end == end:
                return files.directory
            self._require_short_log(end)
            self._lives.is_finished = False  # if queue offsets begin again, all units are built again
            try:
                files.add(end)
                if self._lives.finish():
                    files = self._begin()
                    files.add(end)
            except BaseException:
                self.close()
                raise
            return files.directory

    def close(self) -> None:
        """Delete the files."""
        files, self._files = self._files, None
        if files is not None:
            files.close()

    def _begin(self) -> _TemporaryFiles:
        """Delete the files, and return new ones."""
        self.close()
        self._files = _TemporaryFiles(self._log, self._config, self._lives)
        return self._files

    def _require_short_log(self, end: int) -> None:
        size = end - self._log.min_phy_offset
        if size > self._max_log:
            raise StoreError(f"{self._log.directories[0]}: the log has {size} bytes, more than {self._max_log}")


class _TemporaryFiles(Closable):
    """Queues in a new temporary directory. Attributes: end: physical offset up to which records have units, bytes.

    process: the number of the process that made the files; a forked process does not delete them.
    """

    def __init__(self, log: CommitLog, config: SizedConfig, lives: TopicLives) -> None:
        self.end = log.min_phy_offset
        import tempfile  # takes long to import, and few stores lack the queues

        self.process = os.getpid()
        self._log = log
        self._config = config
        self._count = 0  # of units
        self._root = Path(tempfile.mkdtemp(prefix="rocketstore-queues-"))
        self._places = StorePlaces.of(self._root)
        self._dispatcher = Dispatcher(self._places, config, log, None, (), lives=lives)

    @property
    def directory(self) -> Path:
        """The directory of the queues."""
        return self._places.queues(ConsumeQueue)

    def add(self, end: int) -> None:
        """Add the units of the records up to a physical offset."""
        chunks = RequestChunks(self._log, self._config, self.end, end)
        for chunk in chunks:
            requests, queues = with_more(self._log, self._config, chunk.requests, chunks.queues, ())
            self._count += len(requests)
            if self._count > MAX_UNITS:
                reason = f"its queues have more than {format_count(MAX_UNITS, 'unit')}"
                raise StoreError(f"{self._log.directories[0]}: {reason}")
            self._dispatcher.put_requests(requests, queues)
            self.end = chunk.end
        self.end = end

    def close(self) -> None:
        import shutil  # takes long to import, and few stores lack the queues

        if self.process == os.getpid():
            try:
                self._dispatcher.close()
            finally:
                shutil.rmtree(self._root, ignore_errors=True)
