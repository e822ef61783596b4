"""verify compares the units of queues in RocksDB with the records of the log."""

import shutil

import pytest
from support import brokers, rocks

import rocketstore

FAMILIES = "default", "offset"
LAST = 330  # queue offset of the last message of Plain/0 is below this


class Store:
    """A copy of a broker's store whose rows of RocksDB a test changes."""

    def __init__(self, root, rows, directory):
        self.root, self.path = root, root / directory
        self.units, self.ends = ({**rows[name]} for name in FAMILIES)
        self.plain = sorted(key for key in self.units if key.startswith(rocks.unit_key("Plain", 0, 0)[:-8]))

    def change(self, number, **fields):
        """Change the unit of a message of Plain/0."""
        names = "phy_offset", "size", "tags_code", "store_timestamp"
        unit = dict(zip(names, rocks.UNIT.unpack(self.units[self.plain[number]]), strict=True)) | fields
        self.units[self.plain[number]] = rocks.UNIT.pack(*unit.values())

    def verify(self, **options):
        rocks.replace_rocksdb(self.path, {"default": self.units, "offset": self.ends})
        return rocketstore.verify(self.root, **options)


@pytest.fixture(scope="module")
def unpacked(root_of):
    found = {}

    def unpack(name):
        if name not in found:
            root = root_of(name)
            found[name] = root, rocks.rows_of(root / "consumequeue")
        return found[name]

    return unpack


@pytest.fixture
def store_of(unpacked, tmp_path):
    def store(name):
        root, rows = unpacked(name)
        return Store(shutil.copytree(root, tmp_path / name), rows, "consumequeue")

    return store


@pytest.fixture
def store(store_of):
    return store_of("rocksdb-cq")


def found_in(report):
    return [(finding.kind, finding.detail) for finding in report.findings]


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", ["rocksdb-cq", "rocksdb-cq-separate", "lite-rocksdb", "rocksdb-double", "rocksdb-lmq"])
def test_queues_in_rocksdb_of_a_sound_store_are_counted_and_have_no_fault(name, quick, tmp_path):
    root = brokers.unpack(name, tmp_path)
    report = rocketstore.verify(root, quick=quick)
    assert list(report.findings) == []
    with rocketstore.open(root) as store:
        assert report.queues == len(list(store.queues())) > 0
        assert report.messages == store.summary().messages


def test_rows_that_are_written_again_have_no_fault(store):
    assert found_in(store.verify()) == []


@pytest.mark.parametrize("quick", [False, True])
def test_a_record_without_a_unit_is_found_by_its_key(store, quick):
    phy_offset = rocks.UNIT.unpack(store.units.pop(store.plain[1]))[0]
    expected = ("rocksdb-unit-missing", f"Plain/0 at queue offset 1: of the record at {phy_offset}")
    assert found_in(store.verify(quick=quick)) == [expected]


@pytest.mark.parametrize(
    ("name", "value"), [("size", 7), ("tags_code", -5), ("store_timestamp", 1), ("size", 2**31 - 1)]
)
def test_a_unit_with_another_value_than_its_record_is_found(store, name, value):
    store.change(3, **{name: value})
    [(kind, detail)] = found_in(store.verify())
    assert kind == "rocksdb-unit-wrong"
    assert detail.startswith(f"Plain/0 at queue offset 3: {name} is {value}, that of the record at ")


def test_a_unit_that_leads_elsewhere_is_extra_and_its_record_has_none(store):
    other = rocks.UNIT.unpack(store.units[store.plain[9]])[0]
    store.change(3, phy_offset=other)
    missing, extra = sorted(found_in(store.verify()), reverse=True)
    assert missing[0] == "rocksdb-unit-missing"
    assert missing[1].endswith(f"the unit there leads to {other}")
    where = "Plain/0 at queue offset 3: leads to the record of"
    assert extra == ("rocksdb-unit-extra", f"{where} Plain/0 at {other}, whose queue offset is 9")


@pytest.mark.parametrize(
    ("phy_offset", "size", "words"),
    [(-1, 100, "impossible"), (100, 0, "impossible"), (7, 100, "leads to 7, where no record begins")],
)
def test_a_unit_that_leads_to_no_record_is_extra(store, phy_offset, size, words):
    store.units[rocks.unit_key("Plain", 0, LAST)] = rocks.UNIT.pack(phy_offset, size, 0, 0)
    store.ends[rocks.end_key("Plain", 0)] = rocks.PLACE.pack(phy_offset, LAST)
    [(kind, detail)] = found_in(store.verify())
    assert (kind, words in detail) == ("rocksdb-unit-extra", True)


def test_a_queue_of_units_that_are_of_another_queue_is_found(store):
    phy_offset = rocks.UNIT.unpack(store.units[store.plain[0]])[0]
    store.units[rocks.unit_key("Ghost", 5, -3)] = store.units[rocks.unit_key("Ghost", 5, 8)] = store.units[
        store.plain[0]
    ]
    kinds = found_in(store.verify())
    leads = f"leads to the record of Plain/0 at {phy_offset}"
    assert ("rocksdb-unit-extra", f"Ghost/5 at queue offset 8: {leads}") in kinds
    assert ("rocksdb-unit-extra", "Ghost/5 at queue offset -3: its values are impossible") in kinds
    assert ("rocksdb-queue-end", "Ghost/5: no end of it is stored, and its last unit is at 8") in kinds


def test_units_behind_the_end_of_the_log_are_leftovers(store):
    store.units[rocks.unit_key("Plain", 0, LAST)] = rocks.UNIT.pack(1 << 40, 100, 0, 0)
    report = store.verify()
    [(kind, _)] = found_in(report)
    assert kind == "rocksdb-unit-leftover"
    assert report.ok


@pytest.mark.parametrize("difference", [-1, 1])
def test_a_noted_end_that_is_not_that_of_the_last_unit_is_found(store, difference):
    phy_offset, last = rocks.PLACE.unpack(store.ends[rocks.end_key("Plain", 0)])
    store.ends[rocks.end_key("Plain", 0)] = rocks.PLACE.pack(phy_offset, last + difference)
    [(kind, detail)] = found_in(store.verify())
    assert kind == "rocksdb-queue-end"
    assert f"queue offset {last + difference}" in detail


def test_nothing_more_is_compared_after_a_unit_that_cannot_be_read(store):
    del store.units[store.plain[1]]
    store.units[rocks.unit_key("Plain", 0, LAST)] = b"short"
    assert {kind for kind, _ in found_in(store.verify())} == {"rocksdb-damaged"}


def test_records_behind_the_checkpoint_of_rocksdb_wait_for_their_dispatch(store):
    store.units, store.ends = rocks.without_tail(store.units, 0.5)
    report = store.verify()
    assert {kind for kind, _ in found_in(report)} == {"rocksdb-behind"}
    assert report.ok


def test_records_of_a_topic_that_was_deleted_are_no_fault(store):
    topic = "Plain"
    store.units = {key: value for key, value in store.units.items() if not key.startswith(rocks.topic_key(topic))}
    store.ends = {key: value for key, value in store.ends.items() if not key.startswith(rocks.topic_key(topic))}
    missing = store.verify()
    assert {kind for kind, _ in found_in(missing)} >= {"rocksdb-unit-missing"}
    remove_topic(store.root, topic)
    report = rocketstore.verify(store.root)
    assert {kind for kind, _ in found_in(report)} <= {"topic-deleted", "config-offset"}


def remove_topic(root, topic):
    path = root / "config" / "topics"
    rows = rocks.rows_of(path)
    del rows["default"][topic.encode()]
    rocks.replace_rocksdb(path, rows)


@pytest.mark.parametrize(
    ("family", "key", "value"),
    [
        ("units", rocks.unit_key("Plain", 0, 2), bytes(27)),
        ("units", rocks.unit_key("Plain", 0, 2) + b"\0", bytes(28)),
        ("units", b"\xff\xff", bytes(28)),
        ("ends", rocks.end_key("Plain", 0), bytes(15)),
        ("ends", rocks.end_key("CHECKPOINT_TOPIC", 0), bytes(7)),
    ],
)
@pytest.mark.parametrize("quick", [False, True])
def test_a_row_that_cannot_be_is_one_finding_and_the_log_is_checked(store, family, key, value, quick):
    getattr(store, family)[key] = value
    report = store.verify(quick=quick)
    if not (quick and key == b"\xff\xff"):  # a quick verification reads no row of an unknown queue
        assert "rocksdb-damaged" in {kind for kind, _ in found_in(report)}
    assert report.records > 0


def test_a_database_that_a_broker_writes_beside_files_is_compared_from_its_first_unit(store_of):
    store = store_of("rocksdb-double")
    for key in store.plain[:5]:
        del store.units[key]
    lost = store.plain[8]
    del store.units[lost]
    store.units = {
        key: value for key, value in store.units.items() if not key.startswith(rocks.unit_key("Plain", 1, 0)[:-8])
    }
    store.ends.pop(rocks.end_key("Plain", 1))
    [(kind, detail)] = found_in(store.verify())
    assert (kind, detail[:26]) == ("rocksdb-unit-missing", "Plain/0 at queue offset 8:")


def test_a_light_queue_that_is_in_no_format_is_missing(store_of):
    store = store_of("rocksdb-lmq")
    store.units = {key: value for key, value in store.units.items() if not key.startswith(rocks.topic_key("%LMQ%a"))}
    store.ends = {key: value for key, value in store.ends.items() if not key.startswith(rocks.topic_key("%LMQ%a"))}
    assert [(kind, detail[:10]) for kind, detail in found_in(store.verify())] == [("queue-missing", "20 records")]
