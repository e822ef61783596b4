"""``rocketstore lag``: show how far consumers are behind."""

import click

from rocketstore.cli.completion import complete_groups
from rocketstore.cli.formats import finish, format_option, write_list
from rocketstore.cli.options import store_argument
from rocketstore.cli.store_notes import note_elsewhere
from rocketstore.cli.text import command, note
from rocketstore.config import camel_case
from rocketstore.state.config_values import LMQ_OFFSETS, OFFSETS
from rocketstore.store.lag import ConsumerLag
from rocketstore.store.message_store import MessageStore
from rocketstore.text_values import find_similar

__all__ = ["lag"]


@click.command()
@store_argument
@click.option("--group", shell_complete=complete_groups, help="Only this consumer group.")
@format_option
def lag(store: MessageStore, group: str | None, output_format: str | None) -> None:
    """Show the number of messages that each consumer group has not consumed yet, for each queue.

    The offsets are read from config/consumerOffset.json. A broker with enableLmq keeps them in
    config/lmqConsumerOffset.json instead.
    """
    store.layout.require_config_files("read")
    config = store.broker_config
    name = config.offsets_file
    problems: list[object] = [f"{path}: {what}" for path, what in config.problems if path.name.startswith(name)]
    if group is not None and group not in config.consumer_offsets:
        similar = find_similar(group, config.consumer_offsets)
        hint = f"did you mean {similar!r}?" if similar else f"{command('lag', store.path)} shows all"
        problems.append(f"{store.path}: no group {group!r} in {name}: {hint}")
    lags = list(store.consumer_lag(group))
    other = OFFSETS if name == LMQ_OFFSETS else LMQ_OFFSETS
    if (store.path / "config" / other).exists():
        note(f"{store.path}: these offsets are from {name}. {other} is ignored: it was changed earlier, or the "
             f"broker's properties file has enableLmq=true. A broker with enableLmq=true reads {LMQ_OFFSETS}, any "
             f"other broker reads {OFFSETS}.")
    note_elsewhere(store, {entry.topic for entry in lags})
    write_list([camel_case(name) for name in ConsumerLag._fields], lags, output_format)
    finish([*problems, *(entry.problem for entry in lags if entry.problem is not None)])
