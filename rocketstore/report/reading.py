"""Read a store for its report: each part on its own, so that a part that cannot be read does not stop the others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Generic, TypeVar

from rocketstore.config import StoreConfig
from rocketstore.disk.storage import is_remote
from rocketstore.errors import StoreError, text_of
from rocketstore.progress import Report
from rocketstore.report.log_numbers import LogBounds, LogNumbers, read_log
from rocketstore.report.texts import Clock
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.lag import ConsumerLag
from rocketstore.store.overview.summary import StoreSummary
from rocketstore.store.usage.disk_usage import DiskUsage, measure_parts
from rocketstore.store.usage.expiry_plan import ExpiryPlan
from rocketstore.verify.findings import VerifyReport
from rocketstore.verify.verify import verify

T = TypeVar("T")


@dataclass(frozen=True)
class PartAnswer(Generic[T]):
    """What a part of a store answered. Attributes: value: None if it cannot be read. problem: why; else None."""

    value: T | None = None
    problem: str | None = None

    @property
    def problems(self) -> list[str]:
        """The problem, if there is one."""
        return [] if self.problem is None else [self.problem]


@dataclass(frozen=True)
class StoreAnswers:
    """What the parts of a store answered.

    Attributes: bounds: of the log, also behind damage. checked: of verify. lags: those of each queue. usage: the space
    on the disk. plan: what a broker deletes.
    """

    summary: StoreSummary
    bounds: LogBounds
    checked: PartAnswer[VerifyReport]
    numbers: PartAnswer[LogNumbers]
    lags: PartAnswer[Sequence[ConsumerLag]]
    usage: PartAnswer[DiskUsage]
    plan: PartAnswer[ExpiryPlan]

    @property
    def has_messages(self) -> bool:
        """Whether the log has messages, or bytes that may be messages, or cannot be read."""
        return self.numbers.value is None or self.numbers.value.messages > 0 or self.bounds.end > self.bounds.begin


def read_store(
    store: MessageStore,
    *,
    sample: int,
    config: StoreConfig | None,
    clock: Clock,
    broker_zone: tzinfo | None,
    progress: Report,
) -> StoreAnswers:
    """Read all parts.

    Parameters: sample, config, progress: as for ``make_report``. broker_zone: None for that of this machine.
    """
    summary = store.summary()
    bounds = find_log_bounds(store, summary)
    quick = bounds.end - bounds.begin > sample
    return StoreAnswers(
        summary,
        bounds,
        check(store, config, quick, progress),
        attempt(lambda: read_numbers(store, bounds, sample, clock, progress)),
        attempt(lambda: list(store.consumer_lag())),
        attempt(lambda: measure_parts(store, {})),  # to count units, as du does, takes long with many queues
        attempt(lambda: store.expiry(tz=broker_zone)),
    )


def attempt(read: Callable[[], T]) -> PartAnswer[T]:
    """Return what ``read`` returns, or its error."""
    try:
        return PartAnswer(read())
    except (StoreError, OSError, ValueError, KeyError) as error:
        return PartAnswer(problem=text_of(error))


def check(store: MessageStore, config: StoreConfig | None, quick: bool, progress: Report) -> PartAnswer[VerifyReport]:
    """Verify a local store, or samples of it."""
    if is_remote(store.path):
        return PartAnswer(problem="A remote store is not checked: verify needs a local copy.")
    return attempt(lambda: verify(store.path, quick=quick, config=config, progress=progress))


def find_log_bounds(store: MessageStore, summary: StoreSummary) -> LogBounds:
    """Return the bounds and times of the log, also of messages behind damage. A summary ends before the damage."""
    begin, end = summary.min_phy_offset or 0, summary.max_phy_offset or 0
    sound_end = end
    first = summary.begin_timestamp or 0
    last = first if summary.end_timestamp is None else summary.end_timestamp
    with contextlib.suppress(StoreError, OSError, ValueError):  # ``read_numbers`` raises the error again
        log = store.commit_log
        view = log.look(again=True)
        sound_end, end = view.end, view.records_end
        message = None if view.last_phy_offset is None else log.find_message(view.last_phy_offset)
        last = last if message is None else message.store_timestamp
    return LogBounds(begin, end, min(first, last), max(first, last), sound_end)


def read_numbers(store: MessageStore, bounds: LogBounds, most: int, clock: Clock, progress: Report) -> LogNumbers:
    """Read the log, or a sample of it. Raises: StoreError, OSError."""
    times = bounds.begin_timestamp, bounds.end_timestamp
    zone_offset = clock.offset(bounds.begin_timestamp)
    return read_log(store.commit_log, times, most, progress, end=bounds.end, zone_offset=zone_offset)
