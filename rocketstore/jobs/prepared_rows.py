"""Files of prepared rows: records that several processes encode, and that are appended to a log together."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rocketstore.compat import Compat
from rocketstore.config import SizedConfig
from rocketstore.disk.create import create_file
from rocketstore.disk.durable import sync
from rocketstore.disk.small_file import open_at_once, require_regular
from rocketstore.disk.storage import is_remote, local_path
from rocketstore.disk.store_path import StorePath
from rocketstore.dispatch.light_queues import check_more_queues
from rocketstore.errors import CorruptFileError, PutMessageError
from rocketstore.kernels.csrc import crc32
from rocketstore.kernels.message_slots import own_field
from rocketstore.kernels.record_encoder import ENCODED
from rocketstore.log.encoding import at_row, encode_batch, encoder_of, naming_row
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.put_rules import check_queue, illegal
from rocketstore.messages.system_flags import INNER_BATCH

ANY_QUEUE = -1  # queue id of a message that gets its queue when it is appended


class PreparedRows(NamedTuple):
    """A file of encoded records.

    Attributes: records: their number. size: bytes of all records. largest: bytes of the largest. file_size: bytes.
    """

    name: str
    records: int
    size: int
    largest: int
    file_size: int


class Block(NamedTuple):
    """Records that were encoded together, in the form of RecordEncoder.dump, and their queues."""

    data: bytes
    encoded: NDArray[Any]
    queues: list[tuple[str, int]]

    def with_queues(self, take_turns: Callable[[str, int], list[int]]) -> Block:
        """Return the block with a queue for each record that has none.

        Parameters: take_turns: a function of a topic and a number of messages. It returns the queue ids that come next
        in turn, each once.
        """
        if all(queue_id != ANY_QUEUE for _, queue_id in self.queues):
            return self
        encoded = self.encoded.view(np.uint8).copy().view(ENCODED)  # as bytes, which is faster than field by field
        numbers = dict[tuple[str, int], int]()
        queue = np.ascontiguousarray(encoded["queue"])
        order = np.argsort(queue, kind="stable")
        bounds = np.searchsorted(queue, np.arange(len(self.queues) + 1), sorter=order)
        for (topic, queue_id), (begin, end) in zip(self.queues, pairwise(bounds.tolist()), strict=True):
            rows = order[begin:end]
            turns = take_turns(topic, len(rows)) if queue_id == ANY_QUEUE else [queue_id]
            given = [numbers.setdefault((topic, one), len(numbers)) for one in turns]
            turn = np.arange(len(rows)) % len(turns)
            encoded["queue_id"][rows] = np.array(turns)[turn]
            encoded["queue"][rows] = np.array(given)[turn]
        return Block(self.data, encoded, list(numbers))


class PreparedRowsWriter:
    """Encodes messages into a file, with the configuration of the store that will get them.

    Attributes: rows: the number of messages so far.
    """

    def __init__(self, path: Path, config: SizedConfig, *, keeps_store: bool) -> None:
        """Create the file.

        Parameters: config: the store's. keeps_store: the messages bring their store times and hosts.
        """
        self.path = path
        self.rows = self._size = self._largest = 0
        self._config = config
        self._keeps_store = keeps_store
        self._encoder = encoder_of(config, lambda topic: ANY_QUEUE)
        self._file = os.fdopen(create_file(path), "wb")

    def add(self, batch: MessageBatch) -> None:
        """Add messages. A message with queue id -1, or without a queue id, gets a queue when it is appended.

        Raises: PutMessageError, ValueError if a message is refused; the error has its row number in the file.
        """
        if not len(batch):
            return
        encoder = self._encoder
        with naming_row(encoder, self.rows):
            encode_batch(encoder, batch, keeps_store=self._keeps_store)
        block = Block(*encoder.dump(), list(encoder.queues))
        self._check(batch, block)
        encoded = block.encoded.tobytes()
        checksum = crc32(encoded, crc32(block.data))
        head = {"records": len(batch), "size": len(block.data), "crc32": checksum, "queues": block.queues}
        text = json.dumps(head).encode()
        self._file.writelines((b"%08x " % crc32(text), text, b"\n", block.data, encoded))
        self.rows += len(batch)
        self._size += len(block.data)
        self._largest = max(self._largest, encoder.largest)

    def _check(self, batch: MessageBatch, block: Block) -> None:
        """Refuse messages that the store would refuse, or that must be encoded when they are appended."""
        for number, (topic, queue_id) in enumerate(block.queues):
            try:
                check_queue(topic, max(queue_id, 0))
            except PutMessageError as error:
                row = int(np.argmax(block.encoded["queue"] == number))
                raise at_row(self.rows + row, error) from None
        config = self._config
        is_light = config.enable_lmq or (config.enable_multi_dispatch and Compat.of(config.compat).has_multi_dispatch)
        for row, message in enumerate(batch) if self._encoder.is_special else ():
            is_inner = "INNER_NUM" in message.properties or own_field(message, "sys_flag", 0) & INNER_BATCH
            if is_inner or (is_light and "INNER_MULTI_DISPATCH" in message.properties):
                reason = "an inner batch, or a message for light queues: put_messages takes these"
                raise at_row(self.rows + row, illegal(reason))
            try:
                check_more_queues(message.topic, message.properties, config, ())
            except PutMessageError as error:
                raise at_row(self.rows + row, error) from None

    def finish(self, path: Path) -> PreparedRows:
        """Write the file to the disk, and give it its final name."""
        self._file.flush()
        sync(self._file.fileno())
        file_size = self._file.tell()
        self._file.close()
        self.path.rename(path)
        return PreparedRows(path.name, self.rows, self._size, self._largest, file_size)

    def close(self) -> None:
        """Close the file, and remove it unless it was finished."""
        self._file.close()
        self.path.unlink(missing_ok=True)


def read_blocks(directory: StorePath, prepared: PreparedRows) -> Iterator[Block]:
    """Yield the blocks of a file. Raises: CorruptFileError if its bytes have changed; FileNotFoundError."""
    path = directory / prepared.name
    with path.open("rb") if is_remote(path) else open(local_path(path), "rb", opener=open_at_once) as file:
        status = path.stat() if is_remote(path) else os.fstat(file.fileno())
        require_regular(path, status)
        if (size := status.st_size) != prepared.file_size:
            raise CorruptFileError(path, size, "file size", f"{prepared.file_size} bytes were written")
        while line := file.readline():
            at = file.tell() - len(line)
            try:
                checksum, _, text = line[:-1].partition(b" ")
                if checksum != b"%08x" % crc32(text):
                    raise ValueError("the CRC of its head does not match")
                head = json.loads(text)
                data, encoded = file.read(head["size"]), file.read(head["records"] * ENCODED.itemsize)
                if crc32(encoded, crc32(data)) != head["crc32"]:
                    raise ValueError("the CRC does not match")
                queues = [(topic, queue_id) for topic, queue_id in head["queues"]]
                block = Block(data, np.frombuffer(encoded, ENCODED), queues)
            except (ValueError, KeyError, TypeError) as error:
                raise CorruptFileError(path, at, "block", f"is damaged: {error}") from None
            yield block
