"""``rocketstore import --topic-map``: put messages into other topics, to be consumed again, each only once."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from rocketstore.cli.progress import bar
from rocketstore.cli.text import note
from rocketstore.cli.transfer.redrive_journal import RedriveJournal
from rocketstore.cli.transfer.sources import Source, SourceRows
from rocketstore.messages.message import Message
from rocketstore.messages.redrive import make_again, origin_of
from rocketstore.store.message_store import MessageStore
from rocketstore.text_values import format_count

PUT, STORED, OTHER = "put", "stored", "other"  # what became of a row


class NumberedMessage(NamedTuple):
    """A message to put, and the line or row of the source that it comes from."""

    number: int
    message: Message
    origin: str


def parse_topic_map(texts: tuple[str, ...]) -> dict[str, str]:
    """Return the new topics by the old ones. Raises: ValueError."""
    found: dict[str, str] = {}
    for text in texts:
        old, _, new = text.partition("=")
        if not (old and new):
            raise ValueError(f"{text!r:.80}: write OLD=NEW, such as '%DLQ%billing=Orders'")
        if old in found:
            raise ValueError(f"{text!r:.80}: {old} is given twice")
        found[old] = new
    return found


def redrive(store: MessageStore, source: Source, topics: Mapping[str, str]) -> None:
    """Put the rows of some topics into other topics, without those that the store has from an earlier import.

    Parameters: topics: the new topics by the old ones. Raises: ClickException; OSError; StoreError.
    """
    journal = RedriveJournal.open(store)
    counts: Counter[str] = Counter()
    with bar() as progress:
        task = progress.add_task("import", total=source.size)
        for rows in source.read(0):
            chosen = choose_messages(source, rows, topics, journal.origins, counts)
            put(store, source, journal, chosen)
            journal.save()
            counts[PUT] += len(chosen)
            progress.update(task, completed=rows.position)
    journal.finish()
    note(f"{store.path}: {format_count(counts[PUT], 'message')} of {source.path} put")
    if counts[STORED]:
        note(f"{format_count(counts[STORED], 'message is', 'messages are')} there from an earlier import")
    if counts[OTHER]:
        note(f"{format_count(counts[OTHER], 'row is', 'rows are')} of topics that --topic-map does not name: left out")


def choose_messages(
    source: Source, rows: SourceRows, topics: Mapping[str, str], stored: set[str], counts: Counter[str]
) -> list[NumberedMessage]:
    """Return the messages to put of some rows, and count the others. Parameters: stored: the origins of messages."""
    chosen: dict[str, NumberedMessage] = {}
    for number, message in source.singly(rows):
        if message.topic not in topics:
            counts[OTHER] += 1
            continue
        try:
            origin = str(origin_of(message))
            if origin in stored or origin in chosen:
                counts[STORED] += 1
            else:
                chosen[origin] = NumberedMessage(number, make_again(message, topics[message.topic]), origin)
        except ValueError as error:
            raise source.error(number, error) from None
    return list(chosen.values())


def put(store: MessageStore, source: Source, journal: RedriveJournal, rows: list[NumberedMessage]) -> None:
    """Put messages. If one is refused, those before it are put. Raises: ClickException that names its row."""
    if not rows:
        return
    try:
        store.put_messages([row.message for row in rows])
    except ValueError:
        journal.save()
        for row in rows:
            if row.origin not in journal.origins:
                put_one(store, source, row)


def put_one(store: MessageStore, source: Source, row: NumberedMessage) -> None:
    try:
        store.put_message(row.message)
    except ValueError as error:
        raise source.error(row.number, error) from None
