"""Follow a log that another process may be writing."""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from rocketstore.kernels.commit_log import OK
from rocketstore.kernels.message_columns import message_fields
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.scan import RowChoice
from rocketstore.messages.message import Message, find_inner_batch
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.preview import show_fields
from rocketstore.text_values import datetime_or_none

COLUMNS = [
    "topic",
    "queue_id",
    "queue_offset",
    "phy_offset",
    "size",
    "sys_flag",
    "store_timestamp",
    "tags_code",
    "prepared_transaction_offset",
    "properties",
]


class DispatchRequest(NamedTuple):
    """The values of a message that queues, index and dispatchers need. Offsets and size in bytes, times in epoch ms.

    phy_offset is None if the message is only in tiered storage, and the store was opened with ``tiered``.

    Source: DispatchRequest.

    Examples:
    >>> request = next(rocketstore.open("demo").follow(poll=None))
    >>> request.topic, request.queue_offset, request.keys
    ('Orders', 0, 'order-0')
    """

    topic: str
    queue_id: int
    phy_offset: int | None
    size: int
    tags_code: int
    store_timestamp: int
    queue_offset: int
    keys: str | None
    uniq_key: str | None
    sys_flag: int
    prepared_transaction_offset: int
    properties: dict[str, str]
    msg_base_offset: int
    batch_size: int

    def __repr__(self) -> str:
        return show_fields(self)

    @property
    def tags(self) -> str | None:
        """The TAGS property."""
        return self.properties.get("TAGS")

    @property
    def store_time(self) -> datetime | None:
        """``store_timestamp`` as a datetime in UTC; None for a time beyond the years 1 to 9999."""
        return datetime_or_none(self.store_timestamp)

    @classmethod
    def of(cls, message: Message) -> DispatchRequest:
        """Return the request of a message that was read with COLUMNS. Raises: CorruptFileError."""
        fields = {name: getattr(message, name) for name in COLUMNS}
        properties = fields["properties"]
        base, count = find_inner_batch(message)
        return cls(
            **fields, keys=properties.get("KEYS"), uniq_key=message.uniq_key, msg_base_offset=base, batch_size=count
        )


def follow_batches(
    log: CommitLog,
    from_phy_offset: int | None,
    poll: float | None,
    stop: threading.Event | None,
    columns: Iterable[str] | None,
    rows: RowChoice | None = None,
) -> Iterator[MessageBatch]:
    """Yield the messages of a log that another process may be writing; see ``MessageStore.follow_batches``.

    Parameters: rows: the choice of messages; None for all.
    """
    at = log.min_phy_offset if from_phy_offset is None else operator.index(from_phy_offset)
    while stop is None or not stop.is_set():
        view = log.look()
        end = view.records_end
        at = max(at, log.min_phy_offset)
        if at < end:
            for batch in log.scan(at, end, columns=columns).with_rows(rows):
                if len(batch):
                    yield batch
            _require_last(log, view.last_phy_offset, at, columns)
            at = end
        elif poll is None:
            return
        elif stop is None:
            time.sleep(poll)
        else:
            stop.wait(poll)


def _require_last(log: CommitLog, last: int | None, begin: int, columns: Iterable[str] | None) -> None:
    """Raise CorruptFileError if columns of the last record cannot be read; a scan ends before that record."""
    if last is not None and last >= begin:
        step = log.reader.step(log.reader.scanner(message_fields(columns)), last, last + 1)
        if step is not None and step[1] != OK:
            raise log.error(last, step[1])


def requests_of(batches: Iterable[MessageBatch]) -> Iterator[DispatchRequest]:
    """Yield the DispatchRequests of messages that were read with COLUMNS. Raises: CorruptFileError."""
    for batch in batches:
        yield from map(DispatchRequest.of, batch)
