"""How the running command shows times: their zone, and whether JSON and CSV have ISO 8601 times."""

from datetime import UTC, tzinfo

import click

from rocketstore.cli.text import ISO, ZONE
from rocketstore.messages.text_rows import Row
from rocketstore.text_values import format_time


def find_zone() -> tzinfo | None:
    """Return the time zone of the running command. None is the zone of this machine."""
    context = click.get_current_context(silent=True)
    zone: tzinfo | None = UTC if context is None else context.meta.get(ZONE, UTC)
    return zone


def has_iso_times() -> bool:
    """Return whether the running command writes times in JSON and CSV as ISO 8601."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(ISO))


def with_times(row: Row) -> Row:
    """Return a row whose times are ISO 8601 if the running command has ``--iso``; else the row itself."""
    if not has_iso_times():
        return row
    zone = find_zone()
    return {
        name: format_time(value, zone) if name.endswith("Timestamp") and isinstance(value, int) else value
        for name, value in row.items()
    }
