"""BrokerReader: the messages of several stores within bounds, for a dataset."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

from rocketstore.brokers.broker_scan import explain_if_empty, raise_first
from rocketstore.brokers.find_stores import FAILURES
from rocketstore.dataset.bounds import Bounds
from rocketstore.dataset.dataset_reader import ROWS_AT_ONCE, DatasetReader
from rocketstore.errors import CorruptFileError, text_of
from rocketstore.kernels.message_columns import BROKER, Field, batch_name, lazy_fields, message_fields_of_brokers
from rocketstore.log.scan import first_messages
from rocketstore.messages.message_batch import MessageBatch

ANY_COLUMN = "phyOffset"  # is read if a query needs no column of a message


@dataclass(frozen=True)
class BrokerReader:
    """Reads the messages of several stores within bounds, store after store.

    A store that cannot be read is left out, with a warning. Damage in a log is an error.

    Attributes: readers: of each store by the name of its broker. limit: the largest number of messages; None for all.
    """

    readers: Mapping[str, DatasetReader]
    limit: int | None

    def fields_of(self, columns: str | Iterable[str] | None) -> dict[str, Field]:
        """Return the fields of a table. Parameters: columns: as for ``lazy_fields``. Raises: ValueError."""
        return message_fields_of_brokers([BROKER, *lazy_fields()] if columns is None else columns)

    def describe(self) -> str:
        """Return the names of the brokers."""
        return ", ".join(self.readers)

    def read(
        self, bounds: Bounds, names: Iterable[str], *, threads: int = 1, batch_size: int = ROWS_AT_ONCE
    ) -> Iterator[MessageBatch]:
        """Yield all messages within the bounds, and perhaps others. ``DatasetReader.read`` describes the parameters."""
        batches = self._read_stores(bounds, [*names], threads, batch_size)
        with closing(batches):
            yield from first_messages(batches, self.limit)

    def explain(self, bounds: Bounds) -> str | None:
        """Return why no message is within the bounds; None if a message is. Raises: as a scan."""
        within = bounds_of_messages(bounds)
        reasons = {broker: reader.explain(within) for broker, reader in self._wanted(bounds).items()}
        return explain_if_empty(reasons) if reasons else f"the filter names no broker: there are {self.describe()}"

    def _wanted(self, bounds: Bounds) -> dict[str, DatasetReader]:
        """Return the readers of the brokers within the bounds, which do not choose the first messages."""
        wanted = None if self.limit is not None else bounds.get(BROKER)
        return {broker: reader for broker, reader in self.readers.items() if wanted is None or broker in wanted}

    def _read_stores(self, bounds: Bounds, names: list[str], threads: int, batch_size: int) -> Generator[MessageBatch]:
        of_messages = bounds_of_messages(bounds)
        own = [name for name in names if name != BROKER] or [ANY_COLUMN]
        shown = [*map(batch_name, names)]
        errors: list[Exception] = []
        for broker, reader in self._wanted(bounds).items():
            try:
                for batch in reader.read(of_messages, own, threads=threads, batch_size=batch_size):
                    yield batch.with_broker(broker).select(shown)
            except CorruptFileError as error:
                errors.append(error)
            except FAILURES as error:
                warnings.warn(f"{broker}: {text_of(error)}: the store is left out", stacklevel=2)
        raise_first(errors)


def bounds_of_messages(bounds: Bounds) -> Bounds:
    """Return the bounds of all columns but the broker's."""
    return {name: values for name, values in bounds.items() if name != BROKER}
