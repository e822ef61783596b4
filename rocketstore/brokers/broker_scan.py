"""BrokerScan: the messages of several stores, as batches."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing

from rocketstore.brokers.find_stores import FAILURES
from rocketstore.errors import text_of
from rocketstore.kernels.arrow_export import export_stream
from rocketstore.kernels.columns import require_count
from rocketstore.kernels.message_columns import MESSAGE_FIELDS, Field
from rocketstore.log.scan import Scan, first_messages
from rocketstore.made_by import made_by
from rocketstore.messages.arrow_stream import ArrowStream
from rocketstore.messages.message_batch import MessageBatch, empty_batch


@made_by("rocketstore.open_many(paths).scan()")
class BrokerScan(ArrowStream):
    """The messages of several stores, store after store, each in the order of its log. Each iteration reads them again.

    If a store cannot be read, the others are read before its error is raised.

    Attributes: scans: of each store by the name of its broker; ``scans[broker].skipped`` has the ranges that the last
    iteration left out.

    Examples:
    >>> scan = rocketstore.open_many(["demo"]).scan(topic="Orders")
    >>> scan.count(), scan.head(2).broker.to_pylist()
    (100, ['demo', 'demo'])
    """

    def __init__(
        self, scans: Mapping[str, Scan], fields: dict[str, Field], limit: int | None, problems: Sequence[str]
    ) -> None:
        """Parameters: limit: the largest number of messages of all stores. problems: of stores that are not open."""
        self.scans = dict(scans)
        self._fields = fields
        self._limit = limit
        self._problems = problems

    def __iter__(self) -> Iterator[MessageBatch]:
        return self._read(self._limit)

    @property
    def reasons(self) -> list[str]:
        """Why messages may be missing: stores that are not open, and ranges that the last iteration left out."""
        left_out = [
            f"{text_of(part.error)}: offsets {part.begin} to {part.end} are left out"
            for scan in self.scans.values()
            for part in scan.skipped
        ]
        return [*self._problems, *left_out]

    def head(self, n: int = 5) -> MessageBatch:
        """Return the first ``n`` messages as one batch. Reading stops behind them. Raises: ValueError if n < 0."""
        require_count(n=n)
        batches = list(self._read(n if self._limit is None else min(n, self._limit)))
        return MessageBatch.join(batches) if batches else self._empty()

    def count(self) -> int:
        """Return the number of messages. It reads no bodies, unless ``verify_crc`` was given."""
        found = {broker: scan.count() for broker, scan in self.scans.items()}
        total = sum(found.values())
        return total if self._limit is None else min(total, self._limit)

    def explain(self) -> str:
        """Return how an iteration would read each store, as lines of text."""
        return "\n".join(f"{broker}: {scan.explain()}" for broker, scan in self.scans.items())

    @property
    def why(self) -> str | None:
        """Why no message of any store meets all conditions; None if a message does. Raises: as an iteration."""
        return explain_if_empty({broker: scan.why for broker, scan in self.scans.items()})

    def _read(self, limit: int | None) -> Iterator[MessageBatch]:
        batches = self._read_stores()
        with closing(batches):
            yield from first_messages(batches, limit)

    def _read_stores(self) -> Generator[MessageBatch]:
        errors: list[Exception] = []
        for broker, scan in self.scans.items():
            try:
                for batch in scan:
                    yield self._shown(batch.with_broker(broker))
            except FAILURES as error:
                errors.append(error)
        raise_first(errors)

    def _shown(self, batch: MessageBatch) -> MessageBatch:
        return batch if batch.names == (*self._fields,) else batch.select(self._fields)

    def _empty(self) -> MessageBatch:
        own = [name for name in self._fields if name in MESSAGE_FIELDS] or ["topic"]
        return self._shown(empty_batch(own).with_broker(""))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export as an Arrow stream of record batches, with the names of tables."""
        return export_stream(self._fields.values(), ((tuple(b.columns.values()), len(b)) for b in self))

    def __repr__(self) -> str:
        return f"<BrokerScan of {', '.join(self.scans)}: {', '.join(self._fields)}>"


def raise_first(errors: Sequence[Exception]) -> None:
    """Raise the first of some errors, if there is one, with a note for each of the others."""
    if errors:
        for other in errors[1:]:
            errors[0].add_note(text_of(other))
        raise errors[0]


def explain_if_empty(reasons: Mapping[str, str | None]) -> str | None:
    """Return why several stores have no message; None if one has. Parameters: reasons: None for a store with one."""
    return None if None in reasons.values() else explain_all(reasons)


def explain_all(reasons: Mapping[str, str | None]) -> str:
    """Return why several stores found no message. Parameters: reasons: of each store by the name of its broker."""
    return "; ".join(f"{broker}: {reason}" for broker, reason in reasons.items() if reason is not None)
