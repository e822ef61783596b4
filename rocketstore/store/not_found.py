"""Explain why no message was found: what the log holds, where the index leads, and which names are near."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Any, NamedTuple

import numpy as np

from rocketstore.disk.storage import is_remote
from rocketstore.errors import StoreError, text_of
from rocketstore.kernels.commit_log import OK
from rocketstore.limits import LONG_MAX, LONG_MIN
from rocketstore.log.commit_log import CommitLog
from rocketstore.messages.arguments import describe_empty, integer_list, split_tags, text_list
from rocketstore.messages.message import Message
from rocketstore.query.index_entries import find_entries
from rocketstore.query.query_other_logs import pair_topics_with_keys, words_of
from rocketstore.store.overview.known_names import explain_unknown_topic, known_topics
from rocketstore.store.overview.missing import describe_unknown_queue
from rocketstore.store.overview.summary import COUNTED_QUEUES, describe_uncounted, find_log_span
from rocketstore.store.readable_store import ReadableStore
from rocketstore.text_values import find_time_zone, format_count, format_duration, format_time, ms_or_none, shorten

NEWEST_BYTES = 32 << 20  # the last bytes of the log, whose messages are searched for similar keys and tags
NEWEST_MESSAGES = 50_000
FAILURES = OSError, StoreError, ValueError, KeyError
SHOWN = 5  # names in a text
WORD_COLUMNS = ("topic", "keys", "uniq_key", "tags")
MOST_LOOKUPS = 20_000  # pairs of a topic and a word that are searched in the index


class SearchConditions(NamedTuple):
    """The conditions of a search for messages.

    Attributes: topics, queue_ids, keys, tags: empty for all. index_type: as of a query: None for keys. since: the first
    store time, epoch ms; until: the exclusive end; None: no limit. from_index: whether the index was searched.
    """

    topics: Sequence[str] = ()
    queue_ids: Sequence[int] = ()
    keys: Sequence[str] = ()
    tags: Sequence[str] = ()
    index_type: str | None = None
    since: int | None = None
    until: int | None = None
    from_index: bool = False

    @property
    def words(self) -> Sequence[str]:
        """The texts that are searched in the index."""
        return self.tags if self.index_type == "T" else self.keys


class LogContents(NamedTuple):
    """What a log holds. Attributes: first, last: store times of its first and its last message, epoch ms."""

    text: str
    first: int | None = None
    last: int | None = None


def explain_nothing_found(store: Any, search: SearchConditions, zone: tzinfo | None = UTC) -> str:
    """Return why a search found no message. Reasons that would need an unreadable part of the store are left out.

    Parameters: store: a MessageStore; a closed store is opened again. zone: of the times in the text; None for the zone
    of this machine.
    """
    try:
        with store.reopened() as opened:
            return "; ".join(find_reasons(opened, search, zone))
    except FAILURES as error:
        return f"the reason is unknown: {text_of(error)}"


def explain_empty_scan(store: Any, conditions: Mapping[str, Any]) -> str:
    """Return why no message meets the conditions of a scan. Parameters: conditions: as of ``CommitLog.scan``."""
    zone = find_time_zone(conditions.get("tz", "UTC"))
    empty = describe_empty({name: conditions.get(name) for name in ("topic", "tag", "key", "queue_ids")})
    return "; ".join([*empty, explain_nothing_found(store, search_of_scan(conditions, zone), zone)])


def search_of_scan(conditions: Mapping[str, Any], zone: tzinfo | None = UTC) -> SearchConditions:
    """Return the conditions of a scan, to explain why no message was found.

    Parameters: conditions: as of ``CommitLog.scan``, without iterators. zone: of times that name none.
    """
    topics, keys = (tuple(text_list(conditions.get(name), name) or ()) for name in ("topic", "key"))
    queue_ids = integer_list(conditions.get("queue_ids"))
    tags = sorted(split_tags(conditions.get("tag")) or ())
    since, until = (ms_or_none(conditions.get(name), name, zone) for name in ("since", "until"))
    return SearchConditions(topics, tuple(() if queue_ids is None else queue_ids), keys, tags, since=since, until=until)


def find_reasons(store: ReadableStore, search: SearchConditions, zone: tzinfo | None) -> Iterator[str]:
    """Yield the reasons, the most probable ones first, and at last what the log holds."""
    yield from find_names(store, search)
    contents = read_contents(store, zone)
    yield from find_time_reasons(contents, search, zone)
    yield from find_near(store, search)
    if search.from_index and search.words:
        yield from attempt(lambda: find_index_reasons(store, search, zone))
    yield contents.text
    yield from attempt(lambda: count_topics(store, search.topics))


def find_names(store: ReadableStore, search: SearchConditions) -> list[str]:
    """Return a text about each topic, and about each queue of a topic, that the store does not have."""
    texts = [explain_unknown_topic(store, topic) for topic in search.topics]
    texts += attempt(lambda: find_unknown_queues(store, search))
    return [text.removeprefix(f"{store.path}: ") for text in dict.fromkeys(texts) if text is not None]


def find_unknown_queues(store: ReadableStore, search: SearchConditions) -> Iterator[str]:
    """Yield a text about each queue that the search names and the store does not have."""
    for topic in search.topics:
        for queue_id in search.queue_ids:
            if (text := describe_unknown_queue(store, topic, queue_id)) is not None:
                yield text


def attempt(find: Callable[[], Iterable[str]]) -> list[str]:
    """Return the texts that ``find`` returns; no text if it fails, since a reason is help and not an answer."""
    try:
        return list(find())
    except FAILURES:
        return []


# ---- the log -----------------------------------------------------------------------------------------------


def read_contents(store: ReadableStore, zone: tzinfo | None) -> LogContents:
    """Return the times and the number of the messages of a store."""
    try:
        span = find_log_span(store.commit_log)
    except FAILURES as error:
        return LogContents(f"what the log holds is unknown: {text_of(error)}")
    if span.begin_timestamp is None or span.end_timestamp is None:
        return LogContents("the log has no message")
    times = f"from {time_text(span.begin_timestamp, zone)} to {time_text(span.end_timestamp, zone)}"
    counts = attempt(lambda: count_messages(store))
    place = f"bytes {span.begin} to {span.end}"
    text = f"the log has messages {times} ({', '.join([*counts, place])})"
    return LogContents(text, span.begin_timestamp, span.end_timestamp)


def count_messages(store: ReadableStore) -> list[str]:
    """Return the number of the messages of all queues as a text; none if they would take long to count."""
    if describe_uncounted(store) is not None:
        return []
    queues = [*store.queues()]
    if not queues or len(queues) > COUNTED_QUEUES:
        return []
    count = sum(len(store.consume_queue(*queue)) for queue in queues)
    topics = format_count(len({queue.topic for queue in queues}), "topic")
    return [f"{format_count(count, 'message')} of {topics} in its queues"]


def count_topics(store: ReadableStore, topics: Sequence[str]) -> Iterator[str]:
    """Yield the number of messages of each topic that has queues."""
    for topic in topics[:SHOWN]:
        if ids := store.queue_ids(topic):
            count = sum(len(store.consume_queue(topic, number)) for number in ids)
            yield f"the queues of topic {topic!r} have {format_count(count, 'message')}"


def time_text(timestamp: int, zone: tzinfo | None) -> str:
    """Return a store time, to the second."""
    text = format_time(timestamp, zone, "seconds")
    return f"{timestamp} ms" if text is None else text.replace("T", " ").replace("Z", " UTC")


def find_time_reasons(contents: LogContents, search: SearchConditions, zone: tzinfo | None) -> Iterator[str]:
    """Yield a reason if the requested times are after or before those of all messages."""
    first, last = contents.first, contents.last
    if search.since is not None and last is not None and last < search.since:
        age = time.time_ns() // 1_000_000 - last
        old = f"is {format_duration(age // 1000)} old" if age >= 0 else f"is of {time_text(last, zone)}"
        yield f"the newest message {old}, and messages since {time_text(search.since, zone)} were asked for"
    if search.until is not None and first is not None and search.until <= first:
        asked = f"messages before {time_text(search.until, zone)} were asked for"
        yield f"the oldest message is of {time_text(first, zone)}, and {asked}"


# ---- the index ---------------------------------------------------------------------------------------------


def find_index_reasons(store: Any, search: SearchConditions, zone: tzinfo | None) -> Iterator[str]:
    """Yield to which places the index points for the words of a search, and why it may lack these words."""
    view = store.coverage.look(search.index_type)
    yield from view.reasons[:SHOWN]
    if view.key_index is None:
        return
    topics = search.topics or known_topics(store)
    noun, nouns = ("tags", "tags") if search.index_type == "T" else ("key", "keys")
    about = f"the {noun} {search.words[0]!r:.80}" if len(search.words) == 1 else f"these {nouns}"
    pairs = [(topic, each) for topic in topics for each in search.words][:MOST_LOOKUPS]
    names, words = [topic for topic, _ in pairs], [each for _, each in pairs]
    offsets = find_entries(view, names, words, search.index_type)
    if not offsets:
        place = f" in topic {search.topics[0]!r:.80}" if len(search.topics) == 1 else ""
        yield f"the index has no entry with the hash of {about}{place}"
        return
    log: CommitLog = store.commit_log
    begin, end = log.min_phy_offset, log.max_phy_offset
    expired = [offset for offset in offsets if offset < begin]
    behind = [offset for offset in offsets if offset >= end]
    if expired:
        last = expired[-1]
        yield f"the index leads for {about} to byte {last}, which has expired: the log begins at byte {begin}"
    if behind:
        yield f"the index leads for {about} to byte {behind[0]}, behind the end of the log at byte {end}"
    yield from find_inside(log, [offset for offset in offsets if begin <= offset < end], search, about, zone)


def find_inside(
    log: CommitLog, offsets: Sequence[int], search: SearchConditions, about: str, zone: tzinfo | None
) -> Iterator[str]:
    """Yield why no entry of the index that points into the log points to a message of the search.

    Parameters: offsets: of the entries. about: names the words of the search in the text.
    """
    if not offsets:
        return
    batch, statuses = log.find_messages(np.array(offsets, np.int64), columns=[*WORD_COLUMNS, "store_timestamp"])
    damaged = np.flatnonzero(statuses != OK).tolist()
    if damaged:
        at = offsets[damaged[0]]
        yield f"the index leads for {about} to byte {at}: {text_of(log.error(at, int(statuses[damaged[0]])))}"
    words, topics = set(search.words), set(search.topics)
    meant = [
        message
        for message in batch
        if words & words_of(message, search.index_type) and (not topics or message.topic in topics)
    ]
    if meant:
        times = [message.store_timestamp for message in meant]
        texts = dict.fromkeys(time_text(at, zone) for at in (min(times), max(times)))
        found, verb = format_count(len(meant), "message"), "has another time" if len(meant) == 1 else "have other times"
        yield f"{found} with {about} {verb}: {' to '.join(texts)}"
    elif not damaged:
        yield f"the entries of the index with the hash of {about} lead to other messages"


# ---- similar words -----------------------------------------------------------------------------------------


def find_similar_words(store: ReadableStore, search: SearchConditions) -> Iterator[str]:
    """Yield the keys and tags of messages that differ from the requested ones by case, blanks or topic."""
    topics = known_topics(store) if search.keys else []
    yield from (f"{key!r} is a topic: also give a key" for key in search.keys[:SHOWN] if key in topics)
    yield from find_commas(search.tags)
    words = [*search.keys] if search.index_type != "T" else []
    found = find_variant(store, words, search.topics) if words else None
    if found is not None:
        yield found
        return
    if not (words or search.tags) or is_remote(store.path):
        return
    newest = read_newest(store.commit_log)
    if words:
        yield from find_near_keys(newest, words[:SHOWN])
    if search.tags:
        yield from find_near_tags(newest, search)


def find_commas(tags: Sequence[str]) -> list[str]:
    """Return a text about each tag with a comma, which a user probably meant as several tags."""
    found = [" || ".join(filter(None, map(str.strip, tag.split(",")))) for tag in tags[:SHOWN] if "," in tag]
    return [f"tags are separated by ||: {text!r:.80}" for text in found]


def find_near(store: ReadableStore, search: SearchConditions) -> list[str]:
    """Return texts about keys and tags that are similar to those of a search; no text if they cannot be read."""
    return attempt(lambda: find_similar_words(store, search))


def find_variant(store: ReadableStore, keys: Sequence[str], topics: Sequence[str]) -> str | None:
    """Return a text about the newest message with one of these keys in another topic, or with a similar key.

    The index is searched. Return None if it has no such message.
    """
    others = [topic for topic in known_topics(store) if topic not in topics]
    similar = [*dict.fromkeys(word for key in keys for word in vary(key) if word not in keys)]
    pairs = [(topic, key) for topic in (others if topics else ()) for key in keys]
    pairs += [(topic, key) for topic in [*topics, *others] for key in similar]
    pairs = pairs[:MOST_LOOKUPS]
    if not pairs:
        return None
    names, words = zip(*pairs, strict=True)
    result = store.query_keys([*names], [*words], 1, None, None, None, "ignore")
    rows = [row for row in range(len(pairs)) if result.offsets[row] < result.offsets[row + 1]]
    if not rows:
        return None
    in_other = [topic for topic, key in (pairs[row] for row in rows) if key in keys]
    if in_other:
        return f"the key {keys[0]!r:.80} is in topic {', '.join(map(repr, dict.fromkeys(in_other[:SHOWN])))}"
    topic, key = pairs[rows[0]]
    return f"topic {topic!r} has the key {key!r:.80}"


def vary(key: str) -> list[str]:
    """Return words that a user may have meant by a key: without blanks and quotes, in other case, a part of it."""
    bare = key.strip().strip("'\"")
    parts = [*re.split(r"[\s,;|]+", bare), bare.rpartition("#")[2]]
    words = [bare, *parts, bare.lower(), bare.upper(), bare.capitalize(), bare.title(), bare.swapcase()]
    return [word for word in dict.fromkeys(words) if word and word != key]


class NewestWords(NamedTuple):
    """Keys and tags of the newest messages, each with its topic, the newest ones last."""

    keys: dict[str, str]
    tags: dict[tuple[str, str], None]


def read_newest(log: CommitLog) -> NewestWords:
    """Read the keys and tags of the newest messages of a log."""
    end = log.look(again=True).records_end
    begin = max(log.min_phy_offset, end - NEWEST_BYTES)
    scan = log.scan(begin, end, columns=WORD_COLUMNS, on_corrupt="skip").adapted(warns=False)
    found = NewestWords({}, {})
    messages: deque[Message] = deque(maxlen=NEWEST_MESSAGES)
    for batch in scan:
        messages.extend(batch)
    for message in messages:
        for key in (*message.keys, message.uniq_key):
            if key is not None:
                found.keys[key] = message.topic
        if message.tags is not None:
            found.tags[message.topic, message.tags] = None
    return found


def find_near_keys(newest: NewestWords, keys: Sequence[str]) -> Iterator[str]:
    """Yield a text about the newest key that has the same letters and digits as a requested one."""
    letters = {plain(key) for key in keys} - {""}
    for key, topic in reversed(newest.keys.items()):
        if plain(key) in letters and key not in keys:
            yield f"topic {topic!r} has the key {key!r:.80}"
            return


def find_near_tags(newest: NewestWords, search: SearchConditions) -> Iterator[str]:
    """Yield a text about the tags of the newest messages of the requested topics."""
    known = [(topic, tag) for topic, tag in reversed(newest.tags) if not search.topics or topic in search.topics]
    asked = {plain(tag) for tag in search.tags} - {""}
    near = [(topic, tag) for topic, tag in known if plain(tag) in asked and tag not in search.tags]
    if near:
        yield f"topic {near[0][0]!r} has the tags {near[0][1]!r:.80}"
    elif known and not any(tag in search.tags for _, tag in known):
        names = [*dict.fromkeys(tag for _, tag in known)]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        shown = ", ".join(repr(shorten(name, 40)) for name in names[:SHOWN])
        yield f"the newest messages have the tags {shown}{more}"


def plain(word: str) -> str:
    """Return the letters and digits of a word, without case."""
    return "".join(char for char in word.casefold() if char.isalnum())


def explain_keys(
    store: Any,
    topics: Any,
    keys: Any,
    index_type: str | None,
    times: tuple[int, int],
    missing: Sequence[int],
) -> str:
    """Return why keys of a query have no message.

    Parameters: topics, keys, index_type: as of ``MessageStore.query_messages``. times: the first and the last store
    time, both inclusive. missing: the numbers of these keys, of which the first ones are explained.
    """
    names, words = pair_topics_with_keys("" if topics is None else topics, keys)
    first, last = times
    of_topics = () if topics is None else tuple(dict.fromkeys(names[row] for row in missing[:SHOWN]))
    asked = tuple(dict.fromkeys(words[row] for row in missing[:SHOWN]))
    of_keys, of_tags = ((), asked) if index_type == "T" else (asked, ())
    since, until = None if first == LONG_MIN else first, None if last == LONG_MAX else last + 1
    search = SearchConditions(of_topics, (), of_keys, of_tags, index_type, since, until, from_index=True)
    text = explain_nothing_found(store, search)
    return text if len(words) == 1 else f"{len(missing)} of {format_count(len(words), 'key')} have no message: {text}"
