"""rocketstore's CommitLog against RocketMQ's on stores that RocketMQ wrote: every field of every message."""

import random

import pytest

from interop import store_checks, stores
from interop.store_checks import (
    COLUMNS,
    body_of,
    check_scan,
    expected_rows,
    fields_of,
    java_records,
    open_log,
    plain_body,
)
from rocketstore import CorruptFileError
from rocketstore.messages.message_id import phy_offset_of

pytestmark = pytest.mark.interop


@pytest.fixture(params=stores.STORES, ids=stores.name_of)
def store(request, store_of):
    release, profile, crash = request.param
    return store_of(release, profile, crash=crash)


def test_a_scan_gives_every_field_that_java_decodes(store):
    before = store_checks.fingerprint(store.root)
    check_scan(store)
    assert store_checks.fingerprint(store.root) == before


def test_a_scan_on_several_threads_gives_the_same(store, seed):
    check_scan(store, threads=3, batch_size=random.Random(seed).randint(1, 40))


def test_messages_are_read_one_by_one_and_many_at_once(store, seed):
    rng, records = random.Random(seed), java_records(store)
    rng.shuffle(records)
    expected = expected_rows(records)
    names = [name for name in COLUMNS if name != "tags_code"]
    with open_log(store) as log:
        batch = log.get_messages([row["phy_offset"] for row in expected], columns=names, verify_crc=True)
        for row, one, record in zip(expected, batch, records, strict=True):
            wanted = {name: row[name] for name in names}
            message = log.get_message(row["phy_offset"])
            assert fields_of(message, names) == fields_of(one, names) == wanted
            assert list(message.properties) == list(one.properties)
            assert body_of(message) == plain_body(record["message"])
            assert phy_offset_of(record["message"]["msgId"]) == row["phy_offset"]


def test_the_log_begins_and_ends_where_recovery_leaves_it(store):
    (answer,) = store.java.read_store(store.root, store.options, [{"op": "log"}])
    with open_log(store) as log:
        assert log.min_phy_offset == answer["minOffset"]
        # Recovery cuts a blank that is the last thing in the log; a reader goes to the file that follows.
        assert log.max_phy_offset == answer["maxOffset"]


def test_no_message_is_found_at_an_offset_where_none_begins(store, seed):
    rng = random.Random(seed)
    starts = {row["message"]["commitLogOffset"] for row in java_records(store)}
    with open_log(store) as log:
        end = log.max_phy_offset
        others = [offset for offset in rng.sample(range(end), 200) if offset not in starts]
        requests = [{**store_checks.ALL_RECORDS, "op": "record", "offset": offset} for offset in others]
        answers = store.java.read_store(store.root, store.options, requests, load=False)
        for offset, answer in zip(others, answers, strict=True):
            # A record inside a body can look whole, but does not know its place.
            java = answer.get("message") if answer else None
            assert java is None or java["commitLogOffset"] != offset
            with pytest.raises(CorruptFileError):
                log.get_message(offset)


def test_a_scan_from_anywhere_begins_with_the_next_record(store, seed):
    rng = random.Random(seed)
    starts = [row["message"]["commitLogOffset"] for row in java_records(store)]
    with open_log(store) as log:
        for _ in range(20):
            begin, end = sorted(rng.sample(range(log.max_phy_offset + 1), 2))
            found = [row["phy_offset"] for row in rows_of(log.scan(begin, end, columns=["phy_offset"]))]
            assert found == [start for start in starts if begin <= start < end]


def rows_of(scan):
    return [fields_of(message, ["phy_offset"]) for batch in scan for message in batch]


def conditions(rng, expected):
    """Conditions of a scan, and which messages they hold for."""
    one, other = rng.choice(expected), rng.choice(expected)
    times = sorted((one["store_timestamp"], other["store_timestamp"]))
    words = [*one["keys"], one["uniq_key"] or "none", "Aa"]
    every = {
        "topic": ([one["topic"], other["topic"]], lambda row, v: row["topic"] in v),
        "queue_ids": ([one["queue_id"], 77], lambda row, v: row["queue_id"] in v),
        "tag": (
            "TagA||" + (one["tags"] or "TagB").partition("|")[0].strip(),
            lambda row, v: row["tags"] in v.split("||"),
        ),
        "key": (words, lambda row, v: bool({*row["keys"], row["uniq_key"]} & set(v))),
        "since": (times[0], lambda row, v: row["store_timestamp"] >= v),
        "until": (times[1], lambda row, v: row["store_timestamp"] < v),
    }
    chosen = {name: every[name] for name in rng.sample(list(every), rng.choice((1, 1, 2, 3)))}
    given = {name: value for name, (value, _) in chosen.items()}
    return given, lambda row: all(holds(row, value) for value, holds in chosen.values())


def test_conditions_of_a_scan_hold_for_what_it_gives(store, seed):
    rng, expected = random.Random(seed), expected_rows(java_records(store))
    with open_log(store) as log:
        for _ in range(25):
            given, holds = conditions(rng, expected)
            found = [row["phy_offset"] for row in rows_of(log.scan(columns=["phy_offset"], **given))]
            assert found == [row["phy_offset"] for row in expected if holds(row)], given
