"""``rocketstore dlq``: show the messages that consumers could not process."""

import warnings
from collections.abc import Sequence

from rocketstore.cli.columns import DEAD, DEAD_TOTALS
from rocketstore.cli.formats import RowsView, finish, write_rows_and_totals
from rocketstore.cli.store_notes import note_built_queues
from rocketstore.cli.text import note
from rocketstore.messages.text_rows import Row
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.known_names import explain_unknown_names


def run(
    store: MessageStore,
    topic: tuple[str, ...],
    group: tuple[str, ...],
    since: int | None,
    until: int | None,
    retry: bool,
    totals: bool,
    view: RowsView,
) -> None:
    """Run the command with the values of its options."""
    with warnings.catch_warnings(action="ignore"):  # unknown names are among the problems
        found = store.dead_letters(topic=topic or None, group=group or None, since=since, until=until, retry=retry)
    note_built_queues(store)
    problems = [*found.reasons, *([] if found else explain_unknown_names(store, topic, group))]
    rows: list[Row] = [dict(zip(DEAD, row, strict=True)) | {"keys": [*row.keys]} for row in found]
    sums: list[Row] = [dict(zip(DEAD_TOTALS, total, strict=True)) for total in found.totals()]
    write_rows_and_totals(
        rows,
        sums,
        view,
        for_people,
        columns=DEAD,
        total_columns=DEAD_TOTALS,
        only_totals=totals,
    )
    if not found and not problems:
        note(f"{store.path}: no {'message in retry topics' if retry else 'dead letter'}")
    finish(problems)


def for_people(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a table."""
    names = "group", "topic", "queueId", "reconsumeTimes", "bornTimestamp", "storeTimestamp", "uniqKey"
    return [{name: row[name] for name in names} | {"keys": " ".join(row["keys"])} for row in rows]
