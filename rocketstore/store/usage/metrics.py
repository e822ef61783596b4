"""Metrics: numbers of a store for a monitoring system, in the text format of OpenMetrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rocketstore.kernels.message_columns import BROKER, Field
from rocketstore.made_by import made_by
from rocketstore.messages.rows import Rows
from rocketstore.store.overview.lag import find_lags
from rocketstore.store.overview.summary import collect_error, summarize
from rocketstore.store.pending.find_pending import PendingFilter, find_pending
from rocketstore.store.readable_store import ReadableStore
from rocketstore.store.usage.disk_usage import measure_disk

PREFIX = "rocketstore_"
HELP = {  # of each gauge, by its name without the prefix, in the order of the text
    "messages": "Messages in the queues, also those of light queues.",
    "first_message_timestamp_seconds": "Store time of the first message of the log.",
    "last_message_timestamp_seconds": "Store time of the last message of the log.",
    "running": "Whether a process has the store open for writing.",
    "crashed": "Whether the store was not stopped cleanly and nothing runs.",
    "problems": "Problems that the summary of the store names.",
    "part_used_bytes": "Bytes of a part of the store that have records, units or items.",
    "part_file_bytes": "Lengths of the files of a part of the store.",
    "part_disk_bytes": "Disk space that the files of a part of the store occupy, bytes.",
    "disk_free_bytes": "Free bytes of a disk of the store.",
    "disk_used_ratio": "Used part of a disk of the store, as a broker computes it.",
    "consumer_lag_messages": "Messages of a queue that a consumer group has not consumed.",
    "consumer_lag_oldest_timestamp_seconds": "Store time of the oldest message that a consumer group has not consumed.",
    "pending_messages": "Messages that wait, by kind and topic.",
    "read_problems": "Problems that make numbers of this output incomplete.",
}
ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Sample(NamedTuple):
    """A number of a store. ``labels``: of the number, such as group="billing", as OpenMetrics writes them.

    Examples:
    >>> rocketstore.open("demo").metrics()[0]
    Sample(name='rocketstore_messages', labels='', value=101.0)
    """

    name: str
    labels: str
    value: float


SAMPLE_FIELDS = (Field("name", "u"), Field("labels", "u"), Field("value", "g"))


@made_by("store.metrics()")
class Metrics(Rows[Sample]):
    """Numbers of a store at one moment. Attributes: reasons: why some are missing.

    Examples:
    >>> rocketstore.open("demo").metrics().text().splitlines()[2]
    'rocketstore_messages 101'
    """

    def __init__(self, rows: Sequence[Sample], reasons: Sequence[str]) -> None:
        super().__init__(rows, SAMPLE_FIELDS)
        self.reasons = list(reasons)

    def text(self) -> str:
        """Return the numbers in the text format of OpenMetrics, which Prometheus reads too."""
        lines: list[str] = []
        name = None
        for sample in self:
            if sample.name != name:
                name = sample.name
                help_text = HELP[name.removeprefix(PREFIX)]
                lines += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge"]
            lines.append(f"{name}{sample.labels} {format_value(sample.value)}")
        return "\n".join([*lines, "# EOF", ""])


def format_value(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def labels_of(values: Mapping[str, object]) -> str:
    """Return labels as OpenMetrics writes them: an empty text without labels."""
    pairs = ",".join(f'{name}="{label_text(value)}"' for name, value in values.items())
    return f"{{{pairs}}}" if pairs else ""


def label_text(value: object) -> str:
    """Return the text of a label. Bytes of a path that are no UTF-8 become escape sequences."""
    return str(value).encode("utf-8", "backslashreplace").decode().translate(ESCAPES)


def read_metrics(store: ReadableStore) -> Metrics:
    """Read the numbers of a store. ``MessageStore.metrics`` has the documentation."""
    reasons: list[str] = []
    samples: dict[str, list[Sample]] = {name: [] for name in HELP}
    for part in (_of_summary(store), _of_disk(store, reasons), _of_lags(store), _of_pending(store, reasons)):
        with collect_error(reasons):
            for name, labels, value in part:
                samples[name].append(Sample(PREFIX + name, labels_of(labels), float(value)))
    samples["read_problems"].append(Sample(f"{PREFIX}read_problems", "", float(len(reasons))))
    return Metrics([sample for found in samples.values() for sample in found], reasons)


def join_metrics(parts: Mapping[str, Metrics], problems: Sequence[str]) -> Metrics:
    """Return the numbers of several stores, each with the label ``broker`` before the others.

    Parameters: parts: by the name of the broker. problems: why the numbers of other stores are missing; ``broker`` is
    empty in their number.
    """
    samples = [
        sample._replace(labels=with_label(sample.labels, labels_of({BROKER: broker})))
        for broker, part in parts.items()
        for sample in part
    ]
    if problems:
        samples.append(Sample(f"{PREFIX}read_problems", labels_of({BROKER: ""}), float(len(problems))))
    order = {PREFIX + name: place for place, name in enumerate(HELP)}
    samples.sort(key=lambda sample: order[sample.name])  # a gauge has all its samples together
    return Metrics(samples, [*problems, *(reason for part in parts.values() for reason in part.reasons)])


def with_label(labels: str, first: str) -> str:
    """Return labels with another one before them. Parameters: first: of one label at least."""
    return f"{first[:-1]},{labels[1:]}" if labels else first


Number = tuple[str, Mapping[str, object], float]


def _of_summary(store: ReadableStore) -> Iterator[Number]:
    summary = summarize(store, count_messages=True)
    values: Iterable[tuple[str, float | None]] = [
        ("messages", summary.messages),
        ("first_message_timestamp_seconds", seconds(summary.begin_timestamp)),
        ("last_message_timestamp_seconds", seconds(summary.end_timestamp)),
        ("running", summary.is_locked),
        ("crashed", not summary.last_exit_ok and not summary.is_locked),
        ("problems", len(summary.problems)),
    ]
    yield from ((name, {}, value) for name, value in values if value is not None)


def seconds(timestamp: int | None) -> float | None:
    """Return a time in epoch ms as epoch seconds."""
    return None if timestamp is None else timestamp / 1000


def _of_disk(store: ReadableStore, reasons: list[str]) -> Iterator[Number]:
    usage = measure_disk(store)
    reasons += usage.reasons
    for part in usage:
        labels = {"part": part.part, "path": part.path}
        yield "part_used_bytes", labels, part.used_bytes
        yield "part_file_bytes", labels, part.file_bytes
        if part.disk_bytes is not None:
            yield "part_disk_bytes", labels, part.disk_bytes
    for disk in usage.disks:
        yield "disk_free_bytes", {"path": disk.path}, disk.free_bytes
        yield "disk_used_ratio", {"path": disk.path}, disk.used_share


def _of_lags(store: ReadableStore) -> Iterator[Number]:
    for lag in find_lags(store, None):
        labels = {"group": lag.group, "topic": lag.topic, "queue": lag.queue_id}
        if lag.lag is not None:
            yield "consumer_lag_messages", labels, lag.lag
        if lag.oldest_timestamp is not None:
            yield "consumer_lag_oldest_timestamp_seconds", labels, lag.oldest_timestamp / 1000


def _of_pending(store: ReadableStore, reasons: list[str]) -> Iterator[Number]:
    pending = find_pending(store, PendingFilter(), None)
    reasons += pending.reasons
    for (kind, topic), count in sorted(Counter((row.kind, row.topic) for row in pending).items()):
        yield "pending_messages", {"kind": kind, "topic": topic}, count
