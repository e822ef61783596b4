"""``rocketstore query``: messages by key, unique key, tag, id or time."""

from itertools import islice
from pathlib import Path

import click

from rocketstore.cli.cat import skipped_text
from rocketstore.cli.formats import finish, format_option, write_rows
from rocketstore.cli.index_files import find_offsets
from rocketstore.cli.messages import BODY_RULE, message_rows, result_for_people
from rocketstore.cli.options import COUNT, geometry_options, store_or_index_argument, time_options, time_range
from rocketstore.limits import LONG_MAX
from rocketstore.message import Message
from rocketstore.store.index_service import MAX_MSGS_NUM_BATCH
from rocketstore.store.message_store import MessageStore

__all__ = ["query"]

INDEX_TYPES = {"key": None, "unique_key": "U", "tag": "T"}


@click.command(epilog=BODY_RULE)
@store_or_index_argument
@click.option("--topic", help="The messages' topic.")
@click.option("--key", help="One of the messages' keys, or the unique key.")
@click.option("--unique-key", help="The unique key, which a client gives as message id.")
@click.option("--tag", help="The messages' tags, which RocketMQ indexes since 5.4.0.")
@click.option("--id", "msg_id", help="The offset message id.")
@time_options
@click.option("--max", "max_num", type=COUNT, default=64, show_default=True, help="At most so many.")
@geometry_options
@format_option
def query(path: MessageStore | Path, topic: str | None, msg_id: str | None, since: int | None, until: int | None,
          max_num: int, hash_slot_num: int | None, index_num: int | None, output_format: str | None,
          **names: str | None) -> None:
    """Find messages in PATH: a store, an index directory or an index file.

    In a store by --key, --unique-key or --tag, newest first, each compared on its record; by --id; or by --since and
    --until alone, oldest first. In index files as a broker does: physical offsets by hash and whole seconds, so a
    message of another key may be among them.
    """
    times = time_range(since, until)
    begin, end = 0 if times[0] is None else times[0], LONG_MAX if times[1] is None else times[1]
    wanted = {name: value for name, value in (names | {"id": msg_id}).items() if value is not None}
    if len(wanted) > 1 or not (wanted or since is not None or until is not None):
        raise click.UsageError("give one of --key, --unique-key, --tag and --id, or else --since or --until")
    name, value = next(iter(wanted.items()), ("time", ""))
    if name in INDEX_TYPES and topic is None:
        raise click.UsageError("--key, --unique-key and --tag need --topic")
    if not isinstance(path, MessageStore):
        if name not in INDEX_TYPES or max_num > MAX_MSGS_NUM_BATCH:
            raise click.UsageError(f"index files have --key, --unique-key, --tag, --max {MAX_MSGS_NUM_BATCH}")
        limits = max_num, begin, end
        offsets = find_offsets(path, (hash_slot_num, index_num), topic or "", value, limits, INDEX_TYPES[name])
        write_rows([[{"phyOffset": offset} for offset in offsets]], output_format)
        click.echo(f"{len(offsets)} found by the key's hash: look into the messages to be sure", err=True)
        return
    problems: list[str] = []
    if name == "id":
        found = by_id(path, value)
    elif name == "time":
        found, problems = by_time(path, topic, times, max_num)
    else:
        result = path.query_message(topic or "", value, max_num, begin, end, index_type=INDEX_TYPES[name])
        found, problems = list(result.messages), [f"perhaps not all: {reason}" for reason in result.reasons]
    write_rows([message_rows(found)], output_format, result_for_people)
    click.echo(f"{len(found)} found", err=True)
    finish(problems)


def by_id(store: MessageStore, msg_id: str) -> list[Message]:
    try:
        message = store.query_message_by_id(msg_id)
    except ValueError as error:
        raise click.UsageError(f"--id: {error}") from error
    return [] if message is None else [message]


def by_time(
    store: MessageStore, topic: str | None, times: tuple[int | None, int | None], most: int
) -> tuple[list[Message], list[str]]:
    begin = None if times[0] is None else store.get_phy_offset_by_time(times[0])
    conditions = {"begin_timestamp": times[0], "end_timestamp": times[1], "topics": None if topic is None else [topic]}
    scan = store.scan(begin, **conditions, on_corrupt="skip", batch_size=min(most, 1000))
    found = list(islice((message for batch in scan for message in batch), most))
    return found, [skipped_text(part) for part in scan.skipped]
