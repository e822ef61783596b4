"""``rocketstore offset``: find offsets by time."""

from functools import partial

import click

from rocketstore.cli.formats import Row, format_option, write_parts, write_rows
from rocketstore.cli.options import QUEUE_ID, once_option, store_argument, time_option
from rocketstore.store.message_store import MessageStore

__all__ = ["offset"]


@click.command()
@store_argument
@time_option("--time", "ISO 8601, UTC if it names no zone, or epoch ms.", required=True)
@once_option("--topic", help="Show queue offsets of this topic, not the physical offset.")
@click.option("--queue", "queue_ids", type=QUEUE_ID, multiple=True, help="Only this queue id. May be repeated.")
@click.option("--upper", is_flag=True, help="With --topic: find the last message of that time or earlier.")
@format_option
def offset(store: MessageStore, time: int, topic: str | None, queue_ids: tuple[int, ...], upper: bool,
           output_format: str | None) -> None:
    """Find the first message of STORE that was stored at a time or later."""
    if topic is None:
        if queue_ids or upper:
            raise click.UsageError("--queue and --upper need --topic")
        write_rows([[{"phyOffset": store.get_phy_offset_by_time(time)}]], output_format)
        return
    known = [number for name, number in store.queues() if name == topic]
    if not known:
        raise click.ClickException(f"{store.path}: there is no queue of topic {topic!r}: rocketstore ls shows all")
    problems = [f"{store.path}: there is no queue {number} of topic {topic!r}: rocketstore ls shows all"
                for number in dict.fromkeys(queue_ids) if number not in known]
    boundary = "upper" if upper else "lower"
    queues = [number for number in known if not queue_ids or number in queue_ids]
    write_parts((partial(rows_of, store, topic, time, number, boundary) for number in queues), output_format, problems)


def rows_of(store: MessageStore, topic: str, time: int, queue_id: int, boundary: str) -> list[Row]:
    found = store.get_offset_by_time(topic, time, queue_id, boundary)
    return [{"topic": topic, "queueId": queue_id, "queueOffset": found}]
