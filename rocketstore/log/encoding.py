"""Encode messages as the records of a store, for a log or for a file of a job."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from rocketstore.compat import Compat
from rocketstore.config import StoreConfig
from rocketstore.errors import PutMessageError
from rocketstore.kernels.column_encoder import ColumnEncoder
from rocketstore.kernels.message_slots import own_fields
from rocketstore.kernels.record_encoder import RecordEncoder
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.put_rules import with_flags_and_properties
from rocketstore.messages.to_put import to_put


def encoder_of(config: StoreConfig, find_queue_id: Callable[[str], int]) -> RecordEncoder:
    """Make the encoder of a store's records. find_queue_id: returns the queue of a topic, for messages without one."""
    compat, options = Compat.of(config.compat), vars(config)
    return RecordEncoder(
        config.store_host,
        find_queue_id,
        append_prop_crc=config.enabled_append_prop_crc and compat.has_prop_crc,
        trailing_separator=compat.trailing_separator,
        has_v2=compat.has_v2,
        has_ipv6=compat.has_ipv6,
        has_compression_types=compat.has_compression_types,
        has_inner_batches=compat.has_inner_batches,
        batch_properties=compat.batch_properties,
        max_message_size=config.max_message_size,
        mapped_file_size=options["mapped_file_size_commit_log"],
    )


@contextlib.contextmanager
def naming_row(encoder: RecordEncoder, first_row: int) -> Iterator[None]:
    """Encode new messages in a ``with`` block. If a message is refused, the error names its row.

    Parameters: first_row: the row of the first message.
    """
    encoder.clear()
    try:
        yield
    except ValueError as error:
        raise at_row(first_row + len(encoder), error) from None


def at_row(row: int, error: ValueError) -> ValueError:
    """Return the error with the row of its message among the messages that were given together."""
    if isinstance(error, PutMessageError):
        return PutMessageError(error.status, f"row {row}: {error.args[1]}")
    return ValueError(f"row {row}: {error}")


def with_queue_ids(messages: Sequence[Message] | MessageBatch, queue_ids: Iterable[int]) -> Iterator[Message]:
    """Yield copies of messages, each with its queue id. Fewer messages or queue ids end it."""
    given = messages.to_put() if isinstance(messages, MessageBatch) else map(with_flags_and_properties, messages)
    for message, queue_id in zip(given, queue_ids, strict=False):
        yield Message.of_fields({**own_fields(message), "queue_id": queue_id})


def check_each(messages: Iterable[Message], check: Callable[[Message], object], first_row: int = 0) -> None:
    """Check messages. If one is refused, the error names its row. Parameters: first_row: as for ``naming_row``."""
    for row, message in enumerate(messages, first_row):
        try:
            check(message)
        except PutMessageError as error:
            raise at_row(row, error) from None


def encode_batch(encoder: RecordEncoder, batch: MessageBatch, *, keeps_store: bool) -> None:
    """Encode rows from their columns. Rows whose columns are not enough are encoded as messages."""
    columns, done = ColumnEncoder(batch.stored_columns(), len(batch)), 0
    while (done := columns.add(encoder, done, keeps_store)) < len(batch):
        message = batch[done]
        try:
            encoder.add(to_put(message), keeps_store=keeps_store)
        except OverflowError as error:
            raise ValueError(f"{message!r}: {error}") from None
        done += 1
