"""``rocketstore metrics``: write numbers of a store in the text format of OpenMetrics."""

import sys
from pathlib import Path

from rocketstore.brokers.find_stores import FAILURES, text_about
from rocketstore.cli.formats import finish, write_utf8
from rocketstore.cli.several import AskedStores
from rocketstore.cli.transfer.target import require_file_name, require_outside_stores
from rocketstore.disk.durable import replace_file
from rocketstore.store.usage.metrics import Metrics, join_metrics


def run(stores: AskedStores, output: Path | None) -> None:
    """Run the command with the values of its options."""
    to_file = None if output is None or output == Path("-") else output
    if to_file is not None:
        require_file_name(to_file)
        require_outside_stores(to_file, [store.path for store in stores.stores.values()])
    found = stores.only.metrics() if not stores.is_several else metrics_of(stores)
    data = found.text().encode()
    if to_file is None:
        write_utf8(sys.stdout, data)
    else:
        replace_file(to_file, data)
    finish(found.reasons)


def metrics_of(stores: AskedStores) -> Metrics:
    """Return the numbers of several stores, each with the name of its broker as a label."""
    parts: dict[str, Metrics] = {}
    problems = [*stores.problems]
    for broker, store in stores.stores.items():
        try:
            parts[broker] = store.metrics()
        except FAILURES as error:
            problems.append(text_about(store.path, error))
    return join_metrics(parts, problems)
