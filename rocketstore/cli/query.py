"""``rocketstore query``: find messages by key, unique key, tag, id or time."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from rocketstore.brokers.find_stores import FAILURES, text_about
from rocketstore.brokers.merge import merge_by_time, with_broker
from rocketstore.cli.formats import RowsView, error_text, finish, write_list
from rocketstore.cli.index_files import find_offsets
from rocketstore.cli.settings import time_range
from rocketstore.cli.several import AskedStores
from rocketstore.cli.store_notes import (
    SHOW_WRONG,
    WRONG_BODY,
    left_out,
    note_all,
    note_assumptions,
    note_bad_bodies,
    tier_words,
)
from rocketstore.cli.text import command, note
from rocketstore.cli.view.inner_batches import without_containers
from rocketstore.cli.view.messages import MessageView, phy_offsets_of, write_messages
from rocketstore.disk.ranges import merge_ranges
from rocketstore.index.geometry import IndexGeometry
from rocketstore.index.index_service import MAX_MSGS_NUM_BATCH, IndexType
from rocketstore.limits import INT_MAX, LONG_MAX, LONG_MIN
from rocketstore.log.file_times import Range, choose_files, describe_skipped
from rocketstore.log.scan import Scan
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.compression import BodyError, is_wrong_crc
from rocketstore.messages.message import Message
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.query.query_messages import limit_reason
from rocketstore.query.read_few import OnWrongCrc
from rocketstore.store.message_by_id import explain_missing_message
from rocketstore.store.message_store import MessageStore
from rocketstore.store.not_found import SearchConditions, find_near
from rocketstore.store.overview.known_names import known_topics
from rocketstore.survey.requirements import begin_entry
from rocketstore.text_values import end_ms

SHOWN = 3  # reasons for an incomplete answer
BATCH_SIZE = 8192  # messages
INDEX_TYPES: dict[str, IndexType | None] = {"key": None, "unique_key": "U", "tag": "T"}


class Question(NamedTuple):
    """The question of a query.

    Attributes: by: "key", "unique_key", "tag", "id" or "time". values: the keys, tags or ids. topics: empty for all
    topics. times: the first store time, and the exclusive end of the store times, epoch ms; None: no limit.
    exact_times: read every file of the log if the messages are searched by time alone. most: the largest number of
    messages; None for all. verify_crc: compare bodies with their CRC.
    """

    by: str
    values: list[str]
    topics: tuple[str, ...]
    times: tuple[int | None, int | None]
    exact_times: bool
    most: int | None
    verify_crc: bool


class AnswerToShow(NamedTuple):
    """The messages that a query finds.

    Attributes: batches: the messages. problems: why messages may be missing; the exit status is 1. has_more: whether
    there are more messages than ``batches`` has. scans: those that ``batches`` reads, if it is an iterator; what they
    left out is known when they end. skipped: the parts of the log that are not read, since their files have other
    times: messages of a very wrong clock may be missing, which does not change the exit status. how: the kind of id
    that found the message.
    """

    batches: Iterable[MessageBatch]
    problems: Sequence[str] = ()
    has_more: bool = False
    scans: Sequence[Scan] = ()
    skipped: Sequence[Range] = ()
    how: str = ""


def run(
    path: AskedStores | Path,
    most: int | None,
    since: int | None,
    until: int | None,
    exact_times: bool,
    topic: tuple[str, ...],
    verify_crc: bool,
    geometry: IndexGeometry | None,
    view: MessageView,
    output_format: str | None,
    **names: Any,
) -> None:
    """Run the command with the values of its options."""
    question = question_of(names, topic, since, until, exact_times=exact_times, most=most, verify_crc=verify_crc)
    if isinstance(path, AskedStores):
        query_stores(path, question, view, output_format)
    else:
        query_index_files(path, question, geometry, RowsView(output_format, view.columns))


def question_of(
    names: dict[str, Any],
    topics: tuple[str, ...],
    since: int | None,
    until: int | None,
    *,
    exact_times: bool,
    most: int | None,
    verify_crc: bool,
) -> Question:
    """Return the question that the options ask. Raises: UsageError if they ask none, or more than one."""
    given = {name: value for name, value in names.items() if value not in (None, ())}
    if len(given) > 1 or not (given or since is not None or until is not None):
        hint = "rocketstore cat shows messages of all keys and tags"
        raise click.UsageError(f"give one of --key, --unique-key, --tag, --id, or only --since or --until: {hint}")
    by, value = next(iter(given.items()), ("time", ""))
    if by == "id" and (topics, since, until) != ((), None, None):
        raise click.UsageError("--id names one message: give it without --topic, --since and --until")
    values = value.split("||") if by == "tag" else [value] if isinstance(value, str) else [*dict.fromkeys(value)]
    return Question(by, values, topics, time_range(since, until), exact_times, most, verify_crc)


# ---- a store ---------------------------------------------------------------------------------------------


def query_stores(stores: AskedStores, question: Question, view: MessageView, output_format: str | None) -> None:
    """Show the answer of one store, or of several in the order of store times, and whether there are more messages."""
    view = view.with_broker(has_broker=stores.is_several)
    found = ask_several(stores, question, view) if stores.is_several else ask_one(stores.only, question, view)
    shown = FirstMessages(found.messages, question.most)
    conditions = {"topic": question.topics or None, question.by: tuple(question.values)}
    write_messages(shown, output_format, view.with_conditions(conditions), is_result=True)
    note_bad_bodies(shown.bad_bodies)
    if shown.count:
        has_more = shown.has_more or any(answer.has_more for answer in found.answers.values())
        how = next((f" by its {answer.how}" for answer in found.answers.values() if answer.how), "")
        note(f"{shown.count} found{how}{'; there are more: --limit N shows up to N' if has_more else ''}")
    problems: list[object] = [*found.problems]
    for broker, answer in found.answers.items():
        store = stores.stores[broker]
        read_to = LONG_MAX if stores.is_several else shown.read_to  # a place in the only log
        note_assumptions(store, describe_skipped([part for part in answer.skipped if part[0] < read_to]))
        problems += answer.problems if not (shown.count and question.by == "id") else ()
        problems += (text for scan in answer.scans for text in left_out(scan))
    stores.note_each(partial(note_all, topics=question.topics or None))
    unknown = [] if shown.count else stores.unknown_topics(question.topics)
    search, reasons = search_of_question(question), [*(unknown or problems)]
    if reasons and not (shown.count or stores.is_several):
        reasons[-1] = "; ".join([error_text(reasons[-1]), *find_near(stores.only, search)])
    finish(stores.or_nothing_found(shown.count, [*stores.problems, *reasons], search))


def search_of_question(question: Question) -> SearchConditions:
    """Return the conditions of a question, to explain why no message was found."""
    index_type = INDEX_TYPES.get(question.by)
    words = () if question.by == "time" else tuple(question.values)
    keys, tags = ((), words) if index_type == "T" else (words, ())
    return SearchConditions(
        question.topics, (), keys, tags, index_type, *question.times, from_index=question.by != "time"
    )


class StoresAnswer(NamedTuple):
    """The messages that one store or several find.

    Attributes: messages: an iteration may add to ``problems``. answers: of each store by the name of its broker.
    problems: why other stores have no answer.
    """

    messages: Iterable[MessageBatch | Sequence[Message]]
    answers: dict[str, AnswerToShow]
    problems: list[object]


def ask_one(store: MessageStore, question: Question, view: MessageView) -> StoresAnswer:
    """Ask the only store."""
    answer = ASK.get(question.by, by_key)(store, question)
    return StoresAnswer(messages_of(store, answer, question, view), {"": answer}, [])


def ask_several(stores: AskedStores, question: Question, view: MessageView) -> StoresAnswer:
    """Ask several stores, and merge their messages by store time."""
    answers: dict[str, AnswerToShow] = {}
    problems: list[object] = []
    for broker, store in stores.stores.items():
        try:
            answers[broker] = ASK.get(question.by, by_key)(store, question)
        except FAILURES as error:
            problems.append(text_about(store.path, error))

    def read(broker: str) -> Iterator[MessageBatch | Sequence[Message]]:
        store = stores.stores[broker]
        try:
            for messages in messages_of(store, answers[broker], question, view):
                yield with_broker(messages, broker)
        except FAILURES as error:
            problems.append(text_about(store.path, error))

    merged = merge_by_time([read(broker) for broker in answers], newest_first=question.by != "time")
    return StoresAnswer(merged, answers, problems)


def messages_of(
    store: MessageStore, answer: AnswerToShow, question: Question, view: MessageView
) -> Iterable[MessageBatch | Sequence[Message]]:
    """Return the messages to show of an answer."""
    if view.has_containers:
        return answer.batches
    return without_containers(store.commit_log, answer.batches, newest_first=question.by != "time")


class FirstMessages:
    """The first messages of an answer. An iteration counts them.

    Attributes: count. has_more: whether the answer has more messages. read_to: the physical offset of the last message
    of the answer that was read, bytes; LONG_MAX after the last one. bad_bodies: those of the first messages.
    """

    def __init__(self, batches: Iterable[MessageBatch | Sequence[Message]], most: int | None) -> None:
        """Parameters: most: messages; None for all."""
        self._batches = batches
        self._most = LONG_MAX if most is None else most
        self.count = 0
        self.has_more = False
        self.read_to = LONG_MAX
        self.bad_bodies = BadBodies()

    def __iter__(self) -> Iterator[MessageBatch | Sequence[Message]]:
        for messages in self._batches:
            first = messages[: self._most - self.count]
            self.count += len(first)
            self.bad_bodies.add(body_errors(first))
            yield first
            if len(first) < len(messages):
                self.has_more = True
                self.read_to = phy_offsets_of(messages)[-1]
                break


def by_id(store: MessageStore, question: Question) -> AnswerToShow:
    """Find the message of an offset message id, or the messages of a client's message id, a unique key."""
    [name] = question.values
    try:
        message = store.query_message_by_id(name, verify_crc=False)
    except ValueError as error:
        raise click.UsageError(f"--id: {error}") from error
    if message is None:
        return AnswerToShow([], [explain_missing_message(store, name)])
    if message.msg_id != name.upper():
        names = [*dict.fromkeys([name, name.upper()])]
        of_client = by_key(store, question._replace(by="unique_key", values=names))
        return of_client._replace(how="unique key, the client's message id")
    offsets = np.array([message.phy_offset], np.int64)
    found, _ = store.commit_log.find_messages(offsets, marks_crc=question.verify_crc)
    return leave_out_wrong(newest_first(store, [found], None))._replace(how="offset message id")


def by_key(store: MessageStore, question: Question) -> AnswerToShow:
    most = question.most
    times, index_type = (question.times[0] or 0, question.times[1]), INDEX_TYPES[question.by]
    topics = [*dict.fromkeys(question.topics)] or known_topics(store)
    # Each search has topics and keys. A search of tags has one topic, any other search has pairs of a topic and a key.
    searches: list[tuple[Any, Any]] = [(topic, question.values) for topic in topics]
    if index_type != "T":
        searches = [([topic for topic, keys in searches for _ in keys], question.values * len(topics))]
    with warnings.catch_warnings(action="ignore"):  # query_store reports an unknown topic
        on_wrong_crc: OnWrongCrc = "mark" if question.verify_crc else "ignore"
        results = [store.query_keys(*search, most, *times, index_type, on_wrong_crc) for search in searches]
    found = newest_first(store, [result.messages for result in results], None if most is None else most + 1)
    reasons = list(dict.fromkeys(reason for result in results for reason in result.reasons))
    has_more = any(result.has_more.any() for result in results)
    if has_more:
        reasons.remove(limit_reason(most))  # a line about all keys together says it
    has_more |= most is not None and sum(map(len, found)) > most
    answer = leave_out_wrong(found)._replace(has_more=has_more)
    if not reasons:
        return answer
    option = {"key": "--key", "unique_key": "--key", "tag": "--tag"}[question.by]
    of_topics = [word for topic in question.topics for word in ("--topic", topic)]
    values = ["||".join(question.values)] if question.by == "tag" else question.values
    wanted = [word for value in values for word in (option, value)]
    others = [*tier_words(store), *(["--compacted"] if store.compacted else [])]
    scan = command("cat", store.path, *of_topics, *wanted, *others)
    more = f"; and {len(reasons) - SHOWN} more reasons" if len(reasons) > SHOWN else ""
    text = f"the answer may be incomplete: {'; '.join(reasons[:SHOWN])}{more}"
    what = "all messages" if others else "the log"
    of_log = " of the log" if others else ""
    problem = f"{text}. {scan} reads {what}; {command('rebuild', store.path, '--index')} rebuilds the index{of_log}"
    return answer._replace(problems=[*answer.problems, problem])


def leave_out_wrong(batches: Iterable[MessageBatch]) -> AnswerToShow:
    """Return messages without those whose body does not match its CRC, which are problems.

    Parameters: batches: with their bodies.
    """
    kept, problems = [], []
    for batch in batches:
        wrong = {row: error for row, error in batch.find_body_errors().items() if is_wrong_crc(error)}
        for row, error in sorted(wrong.items()):
            message = batch[row]
            place = f"{message.topic}, queue {message.queue_id}, offset {message.queue_offset}"
            problems.append(f"{place}: the message {WRONG_BODY}: {error_text(error)}: {SHOW_WRONG}")
        kept.append(batch.take([row for row in range(len(batch)) if row not in wrong]) if wrong else batch)
    return AnswerToShow(kept, problems)


def newest_first(store: MessageStore, batches: Sequence[MessageBatch], most: int | None) -> list[MessageBatch]:
    """Return the newest messages of all batches with their bodies, newest first, each once.

    Parameters: most: messages; None for all.
    """
    if not batches:
        return []
    by = "store_timestamp" if store.reads_other_logs else "phy_offset"  # each log has physical offsets of its own
    places = np.concatenate([getattr(batch, by) for batch in batches])
    numbers = np.repeat(np.arange(len(batches)), [len(batch) for batch in batches]).tolist()
    rows = np.concatenate([np.arange(len(batch)) for batch in batches])
    names = [name for batch in batches for name in zip(batch.topic, batch.queue_id, batch.queue_offset, strict=True)]
    order = np.argsort(-places, kind="stable")
    once = {(*names[at], int(places[at])): at for at in reversed(order.tolist())}  # a message may have several keys
    newest = [*once.values()][::-1][:most]
    found: list[MessageBatch] = []
    for number, run in groupby(newest, numbers.__getitem__):  # neighbours of one batch are read together
        part = batches[number].take(rows[[*run]])
        found += store.commit_log.reader.with_bodies(part, INT_MAX, BadBodies())
    return found


def by_time(store: MessageStore, question: Question) -> AnswerToShow:
    (first, end), log = question.times, store.commit_log
    most = LONG_MAX if question.most is None else question.most + 1  # one more shows that there are more
    conditions: dict[str, Any] = {"topic": question.topics or None, "since": first, "until": end}
    conditions |= {"verify_crc": question.verify_crc, "on_corrupt": "skip"}
    if store.reads_other_logs:
        everything = store.scan(**conditions).adapted(warns=False)
        return AnswerToShow(oldest_first(everything, most), scans=[everything])
    log.refresh()
    times = LONG_MIN if first is None else first, LONG_MAX if end is None else end - 1
    chosen = choose_files(log, log.min_phy_offset, LONG_MAX, *times, exact_times=question.exact_times)
    scans = [
        log.scan(*part, **conditions, batch_size=min(most, BATCH_SIZE)).adapted(warns=False)  # FirstMessages counts
        for part in merge_ranges(chosen.ranges)
    ]
    return AnswerToShow(chain.from_iterable(scans), scans=scans, skipped=chosen.skipped)


def oldest_first(batches: Iterable[MessageBatch], most: int) -> list[MessageBatch]:
    """Return the oldest messages of several logs, oldest first. Parameters: batches: log by log. most: messages."""
    kept: list[MessageBatch] = []
    for batch in batches:
        kept.append(batch)
        if sum(map(len, kept)) > 2 * most:
            kept = choose_oldest(kept, most)
    return choose_oldest(kept, most)


def choose_oldest(batches: list[MessageBatch], most: int) -> list[MessageBatch]:
    """Return a batch of the oldest messages of some batches, oldest first; no batch without any."""
    if not batches:
        return []
    joined = MessageBatch.join(batches)
    return [joined.take(np.argsort(joined.store_timestamp, kind="stable")[:most])]


def body_errors(messages: MessageBatch | Sequence[Message]) -> Iterable[BodyError]:
    """Return the error of each message whose body cannot be decoded."""
    if isinstance(messages, MessageBatch):
        return [error for _, error in sorted(messages.find_body_errors().items())]
    return [error for message in messages if (error := message.find_body_error()) is not None]


ASK = {"id": by_id, "time": by_time}


# ---- index files -----------------------------------------------------------------------------------------


def query_index_files(path: Path, question: Question, geometry: IndexGeometry | None, view: RowsView) -> None:
    if question.by not in INDEX_TYPES:
        raise click.UsageError("index files can be searched only by --key, --unique-key or --tag")
    if question.exact_times:
        raise click.UsageError("--exact-times needs a store: index files are searched as a broker searches them")
    if not question.topics:
        raise click.UsageError("index files have hashes of topic and key: give --topic")
    most = MAX_MSGS_NUM_BATCH if question.most is None else question.most
    if most > MAX_MSGS_NUM_BATCH:
        raise click.UsageError(f"--limit: a broker reads at most {MAX_MSGS_NUM_BATCH} offsets from index files")
    begin_entry("query", path)  # raises without index files
    first, last = question.times[0] or 0, end_ms(question.times[1], "--until")
    limits, index_type = (most, first, last), INDEX_TYPES[question.by]
    pairs = [(topic, key) for topic in question.topics for key in question.values]
    offsets = [at for topic, key in pairs for at in find_offsets(path, geometry, topic, key, limits, index_type)]
    if len(pairs) > 1:
        offsets = sorted(set(offsets), reverse=True)[:most]
    write_list(["phyOffset"], ([offset] for offset in offsets), view)
    if not offsets:
        raise click.ClickException(f"{path}: no item was found")
    more = " (there may be more)" if len(offsets) == most else ""
    note(f"{len(offsets)} found{more} by the hash of the key: compare the messages to be sure")
