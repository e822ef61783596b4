"""What every interop test compares: the same input through RocketMQ's classes and through rocketstore."""

import numpy as np
from support.releases import numbers_of

from interop import cases
from rocketstore import IndexFile, IndexService, StoreCheckpoint

FIRST_NAME = 20240101000000000
# Names with the position each ends at.
HEADER_FIELDS = (
    ("beginTimestamp", 8),
    ("endTimestamp", 16),
    ("beginPhyOffset", 24),
    ("endPhyOffset", 32),
    ("hashSlotCount", 36),
    ("indexCount", 40),
)
ITEM_FIELDS = (("keyHash", 4), ("phyOffset", 12), ("timeDiff", 16), ("prevIndex", 20))
COLUMNS = ("topic", "uniq_key", "keys", "tags", "phy_offset", "store_timestamp", "sys_flag")


def options(geometry, release):
    hash_slot_num, index_num = geometry
    return {"hash_slot_num": hash_slot_num, "index_num": index_num, "compat": release}


def put(rng, directory, geometry, rows, release, batches=(1, 1, 7, 50, 5000)):
    """Put rows with IndexFile, rolling as IndexService does, after the files that are there already.

    batches: numbers of rows to put in one call, drawn from at random.
    """
    directory.mkdir(exist_ok=True)
    paths = sorted(directory.iterdir())
    given = options(geometry, release)
    if paths:
        path = paths[-1]
        file = IndexFile.open(path, "r+", **given)
    else:
        path = directory / str(FIRST_NAME)
        file = IndexFile.create(path, **given)
    while True:
        with file:
            while rows and not file.is_write_full:
                rows = rows[put_some(file, rows[: rng.choice(batches)]) :]
            end = {"end_phy_offset": file.header.end_phy_offset, "end_timestamp": file.header.end_timestamp}
        if not rows:
            return
        path = path.with_name(str(int(path.name) + 1))
        file = IndexFile.create(path, **given, **end)


def put_some(file, rows):
    """Put one row by put_key, several by put_keys; return how many were taken."""
    if len(rows) == 1:
        return int(file.put_key(*rows[0]))
    keys, phy_offsets, store_timestamps = zip(*rows, strict=True)
    return file.put_keys(list(keys), np.array(phy_offsets, np.int64), np.array(store_timestamps, np.int64))


def build(root, geometry, requests, release):
    """Dispatch requests to the IndexService of root/index; return the checkpoint's indexMsgTimestamp."""
    root.mkdir(exist_ok=True)
    checkpoint = StoreCheckpoint.open(root / "checkpoint")
    columns = dict(zip(COLUMNS, map(list, zip(*requests, strict=True)), strict=True))
    columns["phy_offset"] = np.array(columns["phy_offset"], np.int64)
    columns["store_timestamp"] = np.array(columns["store_timestamp"], np.int64)
    columns["sys_flag"] = np.array(columns["sys_flag"], np.int32)
    given = options(geometry, release)
    with IndexService.open(root / "index", "a", checkpoint=checkpoint, **given) as service:
        service.build_indexes(columns)
    return StoreCheckpoint.open(root / "checkpoint").index_msg_timestamp


def assert_same_files(ours, theirs, geometry, *, names=True):
    """Compare directories byte for byte in the order of names; names=False where the clock named them."""
    mine, javas = sorted(ours.iterdir()), sorted(theirs.iterdir())
    assert len(mine) == len(javas)
    if names:
        assert [path.name for path in mine] == [path.name for path in javas]
    for number, (one, other) in enumerate(zip(mine, javas, strict=True)):
        difference = first_difference(one.read_bytes(), other.read_bytes(), geometry[0])
        assert not difference, f"file {number} of {len(mine)}, geometry {geometry}: {difference}"


def first_difference(ours, java, hash_slot_num):
    """Say where two index files part, or return None."""
    if ours == java:
        return None
    if len(ours) != len(java):
        return f"{len(ours)} bytes, Java's has {len(java)}"
    at = next(i for i, (mine, other) in enumerate(zip(ours, java, strict=True)) if mine != other)
    items = 40 + 4 * hash_slot_num
    if at < 40:
        place = field_at(HEADER_FIELDS, at)
    elif at < items:
        place = f"slot {(at - 40) // 4}"
    else:
        item, inside = divmod(at - items, 20)
        place = f"item {item} {field_at(ITEM_FIELDS, inside)}"
    start = at - at % 4
    return f"{place}, byte {at}: {ours[start : start + 8].hex()}, Java has {java[start : start + 8].hex()}"


def field_at(fields, position):
    return next(name for name, end in fields if position < end)


def assert_same_selects(java, path, geometry, queries):
    """Ask both for the queries, one by one; and rocketstore once more, all keys in a batch."""
    answers = java.select(path, geometry, queries)
    with IndexFile.open(path, "r", **options(geometry, java.release)) as file:
        for query, answer in zip(queries, answers, strict=True):
            assert file.select_phy_offset(*query) == answer, query
        for max_num, begin, end in {query[1:] for query in queries[:50]}:
            alike = [(query[0], max_num, begin, end) for query in queries[:50]]
            found = file.select_phy_offsets(
                [query[0] for query in alike], max_num=max_num, begin_timestamp=begin, end_timestamp=end
            )
            assert found.to_pylist() == [file.select_phy_offset(*query) for query in alike]


def assert_same_answers(java, root, geometry, queries):
    """Ask both IndexServices about the files of root/index."""
    answers = java.query(root, geometry, queries)
    with IndexService.open(root / "index", "r", **options(geometry, java.release)) as service:
        for query, answer in zip(queries, answers, strict=True):
            topic, key, max_num, begin, end, index_type = query
            found = service.query_offset(topic, key, max_num, begin, end, index_type)
            assert (
                list(found.phy_offsets),
                found.index_last_update_timestamp,
                found.index_last_update_phy_offset,
            ) == answer, query
        for (topic, key, *bounds), (offsets, _, _) in list(zip(queries, answers, strict=True))[:100]:
            assert service.query_offsets(topic, [key], *bounds).to_pylist() == [offsets]


def check_index_file(java, rng, scratch):
    """Fill files by Java and by rocketstore, compare them, and query up to three of them."""
    geometry = cases.geometry(rng)
    rows = cases.rows(rng, cases.row_count(rng, geometry[1]))
    assert java.put(scratch / "java", geometry, rows, FIRST_NAME) == len(rows)
    put(rng, scratch / "ours", geometry, rows, java.release)
    assert_same_files(scratch / "ours", scratch / "java", geometry)
    files = sorted((scratch / "ours").iterdir())
    for path in rng.sample(files, min(3, len(files))):
        assert_same_selects(java, path, geometry, cases.file_queries(rng, rows))


def assert_built_alike(java, scratch, geometry, requests):
    """Dispatch messages to both IndexServices, compare files and checkpoints; return the number of files."""
    safe_until = java.build(scratch / "java", geometry, requests)
    assert build(scratch / "ours", geometry, requests, java.release) == safe_until
    assert_same_files(scratch / "ours" / "index", scratch / "java" / "index", geometry, names=False)
    return len(list((scratch / "java" / "index").iterdir()))


def check_index_service(java, rng, scratch):
    """Dispatch random messages to both IndexServices, compare, and query them."""
    geometry = cases.geometry(rng)
    requests = cases.requests(rng, cases.request_count(geometry[1]))
    assert_built_alike(java, scratch, geometry, requests)
    queries = cases.service_queries(rng, requests, index_types(java.release))
    assert_same_answers(java, scratch / "java", geometry, queries)


def index_types(release):
    """Return the index types that queryOffset of a release takes: they came with the tag entries."""
    return (None, "K", "U", "T") if numbers_of(release) >= (5, 4) else (None,)
