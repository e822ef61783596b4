"""``rocketstore metrics``: write numbers of a store in the text format of OpenMetrics."""

import sys
from pathlib import Path

from rocketstore.cli.formats import finish, write_utf8
from rocketstore.cli.transfer.target import require_file_name
from rocketstore.disk.durable import replace_file
from rocketstore.store.message_store import MessageStore


def run(store: MessageStore, output: Path | None) -> None:
    """Run the command with the values of its options."""
    to_file = None if output is None or output == Path("-") else output
    if to_file is not None:
        require_file_name(to_file)
    found = store.metrics()
    data = found.text().encode()
    if to_file is None:
        write_utf8(sys.stdout, data)
    else:
        replace_file(to_file, data)
    finish(found.reasons)
