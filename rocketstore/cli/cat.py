"""``rocketstore cat``: show the messages of a commit log."""

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import click

from rocketstore.brokers.find_stores import FAILURES, text_about
from rocketstore.brokers.merge import merge_by_time, with_broker
from rocketstore.cli.formats import finish, is_table, report
from rocketstore.cli.options.selection import UnconsumedQuestion
from rocketstore.cli.settings import refuse_places_in_log, scan_conditions
from rocketstore.cli.several import AskedStores
from rocketstore.cli.store_notes import (
    left_out,
    note_all,
    note_bad_bodies,
    note_elsewhere,
    note_leftovers,
    or_nothing_found,
    unknown_topics,
)
from rocketstore.cli.unconsumed import UNCONSUMED_CHOOSES, are_given, show_unconsumed
from rocketstore.cli.view.filters import note_unseen
from rocketstore.cli.view.messages import MessageView, phy_offsets_of, topics_of, write_messages
from rocketstore.disk.ahead import iterate_ahead
from rocketstore.disk.ranges import ranges_from_end
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.message_filter import MessageFilter
from rocketstore.log.scan import Scan, first_messages
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.store.message_store import MessageStore
from rocketstore.store.not_found import search_of_scan

BATCH_SIZE = 8192  # messages in memory
TABLE_SIZE = 500  # messages in memory, and in one table
LAST_PART = 1 << 20  # bytes of the log in which --tail searches first
POLL_SECONDS = 0.2


def run(
    stores: AskedStores,
    follow: bool,
    tail: int | None,
    limit: int | None,
    view: MessageView,
    output_format: str | None,
    unconsumed: UnconsumedQuestion | None,
    message_filter: MessageFilter,
    **options: Any,
) -> None:
    """Run the command with the values of its options."""
    view = view._replace(message_filter=message_filter).with_broker(has_broker=stores.is_several)
    if unconsumed is not None:
        if follow or tail is not None or are_given(options):
            raise click.UsageError(UNCONSUMED_CHOOSES)
        show_unconsumed(stores, unconsumed, limit, view, output_format)
    elif stores.is_several:
        if follow or tail is not None:
            stores.require_one("--follow", "--tail")
        show_several(stores, scan_conditions(**options), limit, view, output_format)
    else:
        show_one(stores.only, scan_conditions(**options), tail, limit, view, output_format, follow=follow)


def show_one(
    store: MessageStore,
    conditions: dict[str, Any],
    tail: int | None,
    limit: int | None,
    view: MessageView,
    output_format: str | None,
    *,
    follow: bool,
) -> None:
    """Show the messages of one store."""
    log, message_filter = store.commit_log, view.message_filter
    note_elsewhere(store, conditions["topic"] or None)
    if store.reads_other_logs:
        refuse_places_in_log(conditions, follows=follow or tail is not None)
        surplus = 0
    else:
        conditions["begin_offset"], surplus = first_offset(log, conditions, tail, follow, view)
    conditions |= reading_options(view, None if limit is None else limit + surplus, output_format)
    scans: Iterable[Scan] = follow_scans(log, conditions) if follow else [scan_once(store, conditions)]
    unseen, found, gaps = set(conditions["topic"] or ()), 0, 0
    reads_ahead = not follow and limit is None

    def batches() -> Iterator[MessageBatch | Sequence[Message]]:
        nonlocal found, gaps, surplus
        for part in map(view.filtered, scans):
            for batch in iterate_ahead(part) if reads_ahead else part:
                rows = batch[surplus:] if surplus else batch  # the first batches have messages before the tail
                surplus = max(surplus - len(batch), 0)
                rows = rows if limit is None or len(rows) <= limit - found else rows[: limit - found]
                found += len(rows)
                if unseen:
                    unseen.difference_update(topics_of(rows))
                yield rows
                if found == limit:
                    break
            note_bad_bodies(part.bad_bodies)
            for problem in left_out(part):
                report(problem)
                gaps += 1
            if found == limit:
                return

    write_messages(batches(), output_format, view.with_conditions(conditions), is_stream=follow)
    note_unseen(message_filter)
    note_leftovers(log)
    unknown = [*unknown_topics(store, sorted(unseen)).values()]
    finish(or_nothing_found(store, found + gaps, unknown, search_of_scan(conditions)))
    if gaps:
        raise click.exceptions.Exit(1)


def show_several(
    stores: AskedStores, conditions: dict[str, Any], limit: int | None, view: MessageView, output_format: str | None
) -> None:
    """Show the messages of several stores in the order of their store times."""
    if (conditions["begin_offset"], conditions["end_offset"]) != (None, None):
        stores.require_one("--begin-offset", "--end-offset")
    conditions |= reading_options(view, limit, output_format)
    scans: dict[str, Scan] = {}
    problems: list[object] = [*stores.problems]
    for broker, store in stores.stores.items():
        try:
            scans[broker] = view.filtered(scan_once(store, conditions))
        except FAILURES as error:
            problems.append(text_about(store.path, error))

    def read(broker: str) -> Iterator[MessageBatch | Sequence[Message]]:
        store = stores.stores[broker]
        try:
            for messages in scans[broker]:
                yield with_broker(messages, broker)
        except FAILURES as error:
            problems.append(text_about(store.path, error))

    found = 0

    def shown() -> Iterator[MessageBatch | Sequence[Message]]:
        nonlocal found
        for messages in first_messages(merge_by_time([read(broker) for broker in scans]), limit):
            found += len(messages)
            yield messages

    write_messages(shown(), output_format, view.with_conditions(conditions))
    note_unseen(view.message_filter)
    bad_bodies = BadBodies()
    for scan in scans.values():
        bad_bodies.add_all(scan.bad_bodies)
    note_bad_bodies(bad_bodies)
    problems += (problem for scan in scans.values() for problem in left_out(scan))
    stores.note_each(partial(note_all, topics=conditions["topic"] or None))
    problems += [] if found else stores.unknown_topics(conditions["topic"] or ())
    finish(stores.or_nothing_found(found, problems, search_of_scan(conditions)))


def reading_options(view: MessageView, limit: int | None, output_format: str | None) -> dict[str, Any]:
    """Return the arguments of a scan that do not choose messages. Parameters: limit: of messages; None for all."""
    return {
        "batch_size": TABLE_SIZE if is_table(output_format) else BATCH_SIZE,
        "charset": view.charset,
        "columns": view.fields,
        "containers": view.has_containers,
        "limit": limit,
    }


class Start(NamedTuple):
    """Where the output begins: at a physical offset, after ``surplus`` messages of the inner batch there."""

    phy_offset: int
    surplus: int = 0


def first_offset(
    log: CommitLog, conditions: dict[str, Any], tail: int | None, follow: bool, view: MessageView
) -> Start:
    """Return where the output begins."""
    begin = max(conditions["begin_offset"] or 0, log.min_phy_offset)
    has_begin = conditions["begin_offset"] is not None or conditions["since"] is not None
    if tail is None and follow and not has_begin:
        tail = 0
    if tail is None:
        return Start(begin)
    end = log.look(again=True).records_end
    if conditions["end_offset"] is not None:
        end = min(end, conditions["end_offset"])
    return find_tail(log, conditions, begin, end, tail, view)


def find_tail(log: CommitLog, conditions: dict[str, Any], begin: int, end: int, count: int, view: MessageView) -> Start:
    """Return where the last ``count`` messages begin."""
    if not count:
        return Start(max(begin, end))
    for first, stop in ranges_from_end(begin, end, LAST_PART):
        part = conditions | {"begin_offset": first, "end_offset": stop, "columns": ["phy_offset"]}
        found = view.filtered(scan(log, part | {"containers": view.has_containers}))
        offsets = [offset for messages in found for offset in phy_offsets_of(messages)]
        if len(offsets) >= count:
            tail = offsets[-count]
            return Start(tail, offsets[:-count].count(tail))
        count -= len(offsets)
    return Start(begin)


def scan_once(store: MessageStore, conditions: dict[str, Any]) -> Scan:
    read = store.scan if store.reads_other_logs else store.scan_log
    return read(**conditions, on_corrupt="skip").adapted(warns=False)


def scan(log: CommitLog, conditions: dict[str, Any]) -> Scan:
    found = log.scan(**conditions, on_corrupt="skip")
    return found.adapted(warns=False)  # the command writes one warning for all scans together


def follow_scans(log: CommitLog, conditions: dict[str, Any]) -> Iterator[Scan]:
    """Yield a scan of the new records each time the log has grown, until the end offset if one is given."""
    last = LONG_MAX if conditions["end_offset"] is None else conditions["end_offset"]
    begin = conditions["begin_offset"]
    while begin < last:
        end = min(log.look().records_end, last)
        if begin < end:
            yield scan(log, conditions | {"begin_offset": begin, "end_offset": end})
            begin = end
        else:
            time.sleep(POLL_SECONDS)
