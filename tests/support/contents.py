"""What a store says, without physical offsets: to compare a store with the stores that were converted from it."""

import rocketstore

MOVING = ("phy_offset", "msg_id", "prepared_transaction_offset")
COLUMNS = (
    "topic", "queue_id", "queue_offset", "phy_offset", "size", "flag", "sys_flag", "born_timestamp", "born_host",
    "store_timestamp", "store_host", "reconsume_times", "prepared_transaction_offset", "body_crc", "properties",
    "raw_body",
)  # fmt: skip


def messages_of(store):
    """The records in the order of the log, and the number of each by its physical offset."""
    rows, numbers = [], {}
    for batch in store.scan(columns=COLUMNS, containers=True):
        for row in batch.to_arrow().to_pylist():
            place, prepared = row.pop("phyOffset"), row.pop("preparedTransactionOffset")
            numbers[place] = len(rows)
            row["properties"] = sorted(pair for pair in row["properties"] if pair[0] != "__CRC32#")
            row["prepared"] = numbers.get(prepared, prepared if prepared <= 0 else "unknown")
            rows.append(row)
    return rows, numbers


def queues_of(store, numbers):
    """Begin and end of each queue whose units lead into the log, and its units: the numbers of their messages."""
    found = {}
    for queue_id in store.queues():
        try:
            queue = store.log_queue(*queue_id)
        except KeyError:
            continue
        units = [
            (
                unit.queue_offset,
                numbers[unit.phy_offset],
                unit.size,
                unit.tags_code if unit.tags_code > -(1 << 33) else 0,
            )
            for unit in queue
            if not unit.is_filler
        ]
        found[queue_id] = (max(queue.min_queue_offset, 0), queue.max_queue_offset, units)
    return found


def contents(root, config=None):
    """Messages, queues and tables of a store."""
    with rocketstore.open(root, config=config) as store:
        rows, numbers = messages_of(store)
        queues = queues_of(store, numbers)
        tables = store.broker_config
    return rows, queues, (tables.topics, tables.subscription_groups, tables.consumer_offsets, tables.delay_offsets)


def files_of(root, *names):
    """The bytes of all files in some directories of a root."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for name in names
        for path in sorted((root / name).rglob("*"))
        if path.is_file()
    }
