"""``rocketstore lag``: show how far consumers are behind."""

import time
import warnings
from collections.abc import Collection, Sequence
from functools import partial

from rocketstore.cli.columns import AGE, LAG_TOTALS, LAGS
from rocketstore.cli.conditions import Condition
from rocketstore.cli.formats import RowsView, finish_checked, is_table, write_rows
from rocketstore.cli.several import AskedStores, RowsAnswer
from rocketstore.cli.store_notes import note_elsewhere
from rocketstore.cli.text import command, note
from rocketstore.errors import StoreError
from rocketstore.kernels.message_columns import BROKER
from rocketstore.messages.text_rows import Row
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX
from rocketstore.queue.queue_source import offset_range
from rocketstore.state.config_values import LMQ_OFFSETS, OFFSETS
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.lag import ConsumerLag
from rocketstore.survey.broker_config import BrokerConfig
from rocketstore.text_values import find_similar, format_count, format_duration


def run(
    stores: AskedStores,
    group: tuple[str, ...],
    totals: bool,
    log_bytes: bool,
    fail_if: tuple[Condition, ...],
    view: RowsView,
) -> None:
    """Run the command with the values of its options."""
    now = time.time_ns() // 1_000_000
    found = stores.ask(partial(lags_of, groups=group, log_bytes=log_bytes, now=now))
    sums = [
        *found.sums,
        *([total | {BROKER: None} for total in total_rows(found.rows, now)] if stores.is_several else []),
    ]
    sums = [{name: row[name] for name in stores.columns(LAG_TOTALS)} for row in sums]
    shown = stores.for_people(for_people)
    if found.others:
        write_rows(found.others, view, shown, columns=stores.columns(LAGS))
    if not totals and (found.rows or not found.others):
        write_rows(found.rows, view, shown, columns=stores.columns(LAGS))
    if (totals and not found.others) or (found.rows and is_table(view.output_format) and view.columns is None):
        write_rows(sums, view, stores.for_people(totals_for_people), columns=stores.columns(LAG_TOTALS))
    finish_checked(found.problems, fail_if, found.rows, sums)


def lags_of(store: MessageStore, groups: tuple[str, ...], log_bytes: bool, now: int) -> RowsAnswer:
    """Return the lags of a store and the sums of each group; as other rows the queues, if no offsets can be read.

    Parameters: groups: empty for all. now: epoch ms.
    """
    config = store.broker_config
    name = config.offsets_file
    problems: list[object] = [f"{path}: {what}" for path, what in config.problems if path.name.startswith(name)]
    if not config.consumer_offsets and problems and name not in (OFFSETS, LMQ_OFFSETS):
        return RowsAnswer([], problems=problems, others=queues_of(store))
    unknown: dict[str, str] = {}
    for group in sorted({*groups} - config.consumer_offsets.keys()):
        similar = find_similar(group, config.consumer_offsets)
        hint = f"did you mean {similar!r}?" if similar else f"{command('lag', store.path)} shows all"
        unknown[group] = f"{store.path}: no group {group!r} in {name}: {hint}"
    with warnings.catch_warnings(action="ignore"):  # the unknown group is among the problems
        lags = list(store.consumer_lag(groups or None, log_bytes=log_bytes))
    note_other_offsets(store, name)
    note_queues_not_read(config, groups)
    note_elsewhere(store, {entry.topic for entry in lags})
    rows = [row_of(entry, now) for entry in lags]
    problems += describe_problems(store, lags)
    if not lags and not problems and not unknown:
        text = f"{store.path}: {nothing_saved(config, groups)}"
        if is_empty(store):
            problems = [text]
        else:
            note(text)
    return RowsAnswer(rows, total_rows(rows, now), problems, unknown)


def describe_problems(store: MessageStore, lags: Sequence[ConsumerLag]) -> list[str]:
    """Return the problems of queues. Light queues that cannot be read share one problem, that of the store."""
    store_problems = store.formats.problems()
    if not store_problems or not any(map(is_unread_light_queue, lags)):
        return [lag.problem for lag in lags if lag.problem is not None]
    others = [lag.problem for lag in lags if lag.problem is not None and not is_unread_light_queue(lag)]
    return [*store_problems, *others]


def is_unread_light_queue(lag: ConsumerLag) -> bool:
    return lag.max_offset is None and lag.topic.startswith(LIGHT_QUEUE_PREFIX)


def queues_of(store: MessageStore) -> list[Row]:
    """Return the queues without consumer groups, whose offsets cannot be read, and write a note about this."""
    nothing: Row = dict.fromkeys(LAGS)
    rows = []
    for topic, queue_id in store.queues():
        queue = store.consume_queue(topic, queue_id)
        least, end = offset_range(queue)
        known = {"topic": topic, "queueId": queue_id, "minOffset": least, "maxOffset": end, "topicExists": True}
        rows.append(nothing | known)
    note_elsewhere(store, {str(row["topic"]) for row in rows})
    note(f"{store.path}: only the queues are shown, since consumer groups and their offsets are not known")
    return rows


def is_empty(store: MessageStore) -> bool:
    """Return whether a store has no queue."""
    try:
        return next(iter(store.queues()), None) is None
    except (OSError, StoreError):  # queues in RocksDB
        return False


def nothing_saved(config: BrokerConfig, groups: Collection[str]) -> str:
    """Return why no queue is shown. Parameters: groups: the wanted groups; empty for all."""
    if not config.consumer_offsets:
        return f"no consumer group has saved an offset in {config.offsets_file}"
    who = f"group {next(iter(groups))!r}" if len(groups) == 1 else "the groups"
    return f"the topics of {who} have neither messages nor saved offsets"


def note_other_offsets(store: MessageStore, name: str) -> None:
    """Write a note to standard error if the store also has the other file of consumer offsets than ``name``."""
    other = LMQ_OFFSETS if name == OFFSETS else OFFSETS
    if not store.places.config_file(other).exists():
        return
    reason = f"the broker's properties file has enableLmq={str(name == LMQ_OFFSETS).lower()}"
    if name not in (OFFSETS, LMQ_OFFSETS):
        reason = "the broker keeps its offsets in this RocksDB"
    elif not store.config.is_of_broker_file:
        reason = (
            "it was changed earlier. The broker's properties file (--broker-conf) decides: with enableLmq=true a "
            f"broker reads {LMQ_OFFSETS}, else {OFFSETS}"
        )
    note(f"{store.path}: these offsets are from {name}. {other} is ignored: {reason}.")


def note_queues_not_read(config: BrokerConfig, groups: Collection[str]) -> None:
    """Write a note to standard error with the number of saved offsets of queues that consumers do not read."""
    count = sum(
        queue_id >= config.topics[topic].read_queue_nums
        for name, topic, queue_id, _ in config.next_offsets()
        if (not groups or name in groups) and topic in config.topics
    )
    if count:
        offsets = format_count(count, "saved offset is of a queue", "saved offsets are of queues")
        note(f"{offsets} beyond readQueueNums, which no consumer reads: left out, as a broker leaves them out.")


def row_of(entry: ConsumerLag, now: int) -> Row:
    return dict(zip(LAGS, (*entry, age(entry.oldest_timestamp, now)), strict=True))


def age(timestamp: int | None, now: int) -> int | None:
    """Return the age of a message in seconds; None without a message. Parameters: timestamp, now: epoch ms."""
    return None if timestamp is None else max(now - timestamp, 0) // 1000


def total_rows(rows: Sequence[Row], now: int) -> list[Row]:
    """Return a row for each group, sorted. A queue whose lag is unknown does not count."""
    totals = []
    for group in sorted({row["group"] for row in rows}):
        own = [row for row in rows if row["group"] == group]
        oldest = min((row["oldestTimestamp"] for row in own if row["oldestTimestamp"] is not None), default=None)
        lag = sum(row["lag"] or 0 for row in own)
        sizes = [row["logBytes"] for row in own if row["logBytes"] is not None]
        size = sum(sizes) if sizes else None
        values = group, len({row["topic"] for row in own}), len(own), lag, size, oldest, age(oldest, now)
        totals.append(dict(zip(LAG_TOTALS, values, strict=True)))
    return totals


def for_people(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a table; problems are on standard error."""
    shown = [
        {
            "group": row["group"],
            "topic": row["topic"] + ("" if row["topicExists"] else " (does not exist)"),
            "queueId": row["queueId"],
            "consumerOffset": row["consumerOffset"],
            "maxOffset": row["maxOffset"],
            "lag": row["lag"],
            "logBytes": row["logBytes"],
            "age": age_text(row),
        }
        for row in rows
    ]
    return without_sizes_if_unknown(shown)


def totals_for_people(rows: Sequence[Row]) -> list[Row]:
    names = ("group", "topics", "queues", "lag", "logBytes")
    return without_sizes_if_unknown([{name: row[name] for name in names} | {"age": age_text(row)} for row in rows])


def without_sizes_if_unknown(rows: list[Row]) -> list[Row]:
    """Return the rows of a table without the column of bytes, if no row has them."""
    if any(row["logBytes"] is not None for row in rows):
        return rows
    return [{name: value for name, value in row.items() if name != "logBytes"} for row in rows]


def age_text(row: Row) -> str | None:
    return None if row[AGE] is None else format_duration(row[AGE])
