"""``rocketstore cat``: the messages of a commit log."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import click

from rocketstore.cli.elsewhere import note_elsewhere
from rocketstore.cli.formats import Row, error_text, finish, format_option, note, report, write_rows
from rocketstore.cli.messages import BODY_RULE, for_people, message_rows, note_bad_bodies, row_names
from rocketstore.cli.options import scan_conditions, selection_options, store_argument, unknown_topics
from rocketstore.limits import LONG_MAX
from rocketstore.log.commit_log import CommitLog
from rocketstore.log.log_end import LogEnd
from rocketstore.log.scan import Scan, Skipped
from rocketstore.recovery.leftovers import describe_leftovers
from rocketstore.store.message_store import MessageStore

__all__ = ["cat", "left_out", "note_leftovers", "skipped_text"]

BATCH_SIZE = 500  # messages in memory, and in one table
POLL_SECONDS = 0.2


@click.command(epilog=BODY_RULE)
@store_argument
@selection_options
@click.option("--follow", "-f", is_flag=True, help="At the end wait for more, until Ctrl-C.")
@format_option
def cat(store: MessageStore, follow: bool, output_format: str | None, **options: Any) -> None:
    """Show the messages of STORE for which all conditions hold, in the order of the commit log.

    What is damaged, or deleted before it is read, is left out and named on standard error; the exit status is then 1.
    If only the body of a message cannot be decoded, the message is shown. A warning gives the number of these messages.
    """
    conditions, log = scan_conditions(**options), store.commit_log
    note_elsewhere(store, conditions["topics"] or None)
    conditions["begin_offset"] = max(conditions["begin_offset"] or 0, log.min_phy_offset)
    scans = follow_scans(log, conditions) if follow else [scan(log, conditions)]
    unseen, is_whole = set(conditions["topics"] or ()), True

    def batches() -> Iterator[Sequence[Row]]:
        nonlocal is_whole
        for part in scans:
            for batch in part:
                rows = message_rows(batch)
                unseen.difference_update(row["topic"] for row in rows)
                yield rows
            note_bad_bodies(part.bad_bodies)
            for problem in left_out(log, part):
                report(problem)
                is_whole = False

    write_rows(batches(), output_format, for_people, columns=row_names())
    note_leftovers(log)
    finish(unknown_topics(store, sorted(unseen)))
    if not is_whole:
        raise click.exceptions.Exit(1)


def note_leftovers(log: CommitLog) -> None:
    """Write a note to standard error if there are records behind the end of the log. They are no error."""
    if (text := describe_leftovers(log)) is not None:
        note(f"{text}. Pass --leftovers to read them.")


def scan(log: CommitLog, conditions: dict[str, Any]) -> Scan:
    found = log.scan(**conditions, on_corrupt="skip", batch_size=BATCH_SIZE)
    found.warns = False  # the command writes one warning for all its scans
    return found


def follow_scans(log: CommitLog, conditions: dict[str, Any]) -> Iterator[Scan]:
    """Scan on whenever the log has grown, up to the end offset if there is one."""
    last = LONG_MAX if conditions["end_offset"] is None else conditions["end_offset"]
    begin, log_end = conditions["begin_offset"], LogEnd(log)
    while begin < last:
        end = min(log_end.find(), last)
        if begin < end:
            yield scan(log, conditions | {"begin_offset": begin, "end_offset": end})
            begin = end
        else:
            time.sleep(POLL_SECONDS)


def left_out(log: CommitLog, scan: Scan) -> list[str]:
    """Say what a scan did not give: what is damaged, and what expired while it read."""
    problems = [*map(skipped_text, scan.skipped)]
    if scan.has_expired:
        problems.append(f"{log.directories[0]}: the log before {log.min_phy_offset} was deleted before it was read")
    return problems


def skipped_text(part: Skipped) -> str:
    return f"{error_text(part.error)}: offsets {part.begin} to {part.end} are left out"
