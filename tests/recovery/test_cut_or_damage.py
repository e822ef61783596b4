"""Damage is never taken for a broker's cut, and a proved cut ends the log: stores of RocketMQ's own classes.

`support/log_ends.py` describes the stores. What readers and repairs do is judged by what was put, and by the readable
second implementation of the rule, `reference/log_end.py`.
"""

import contextlib
import dataclasses
import itertools
import shutil

import pytest
from reference.log_end import judge, read_units
from support.log_ends import (
    CELLS,
    CONFIG,
    CUT,
    CUT_THEN_MESSAGES,
    KILLED,
    LOG_FILE,
    RELEASES,
    RUNNING,
    SIZES,
    STOPPED,
    TORN,
    Ends,
    change_body,
    few_cells,
    make_cell,
    running,
    sound_records,
)

import rocketstore
from rocketstore import CorruptFileError, Message, StoreError, StoreLockedError, recover

LEFT_AS = {STOPPED: "stopped", KILLED: "crashed", RUNNING: "running"}
# A cut that looks like damage: no record is newer than those that were cut off, or no queue proves anything.
WITHOUT_PROOF = ("clock_back", "one_millisecond", "no_queues", "no_queues_of_a_topic")
# The broker's start is not known for certain, or the third run put no messages.
UNKNOWN_RUN = ("restarted", "clock_ahead", "clock_back", "no_lock", "no_queues", "no_queues_of_a_topic")

BROKERS = ("5.3.3", "5.5.1")  # whose recovery the policy "broker" does
WAYS_ON = ("--cut-at-damage", "--policy broker", "salvage")


@pytest.fixture(scope="module")
def ends_of(tmp_path_factory):
    """A function from a release to its stores, unpacked once."""
    unpacked = {}

    def unpack(release):
        if release not in unpacked:
            unpacked[release] = Ends(release, tmp_path_factory.mktemp(f"ends-{release}"))
        return unpacked[release]

    return unpack


def everything(root):
    """All files but those that any opening for writing makes: the lock and the settings."""
    files = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return {path: data for path, data in files.items() if path.name not in ("lock", "rocketstore.json")}


def offsets_of(store, **options):
    """Return the offset of each record once. The messages of an inner batch all have the offset of their record."""
    batches = store.scan(columns=["phy_offset"], **options)
    of_messages = [offset for batch in batches for offset in batch.phy_offset.tolist()]
    return [offset for offset, _ in itertools.groupby(of_messages)]


def offsets(records):
    return [placed.offset for placed in records]


def judge_cell(cell, root):
    began = int((root / "abort").stat().st_mtime * 1000) if cell.state == RUNNING else None
    return judge(root, LEFT_AS[cell.state], run_began=began, hash_slot_num=SIZES["max_hash_slot_num"])


def is_of_broker_policy(cell):
    return cell.release in BROKERS and cell.state != RUNNING


@contextlib.contextmanager
def left_as(cell, root):
    if cell.state == RUNNING:
        with running(root, holds_lock=cell.condition != "no_lock"):
            yield
    else:
        yield


@pytest.mark.parametrize("cell", few_cells(), ids="-".join)
def test_log_ends_at_a_cut_and_not_at_damage(cell, ends_of, tmp_path):
    check_cell(cell, ends_of, tmp_path)


@pytest.mark.parametrize("cell", [cell for cell in few_cells() if is_of_broker_policy(cell)], ids="-".join)
def test_policy_broker_names_what_a_broker_loses(cell, ends_of, tmp_path):
    check_broker_policy(cell, ends_of, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_log_ends_at_a_cut_and_not_at_damage_in_each_cell(release, ends_of, tmp_path):
    cells = [cell for cell in CELLS if cell.release == release]
    assert failures(check_cell, cells, ends_of, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("release", BROKERS)
def test_policy_broker_names_what_a_broker_loses_in_each_cell(release, ends_of, tmp_path):
    cells = [cell for cell in CELLS if cell.release == release and is_of_broker_policy(cell)]
    assert failures(check_broker_policy, cells, ends_of, tmp_path) == []


def failures(check, cells, ends_of, directory):
    """Return (cell, error) of all cells that fail."""
    failed = []
    for cell in cells:
        place = directory / "-".join(cell)
        place.mkdir()
        try:
            check(cell, ends_of, place)
        except (Exception, pytest.fail.Exception) as error:
            failed.append(("-".join(cell), repr(error)[:300]))
        shutil.rmtree(place)
    return failed


def check_cell(cell, ends_of, directory):
    made = make_cell(ends_of(cell.release), cell, directory / "store")
    with left_as(cell, made.root):
        judgement = judge_cell(cell, made.root)
        check_rule(cell, made, judgement)
        check_readers(cell, made, judgement)
        check_refusals(cell, made, judgement)
    if cell.state != RUNNING:
        check_remote_reader(made, judgement, bad_bodies_of(cell, made))
        check_findings(cell, made, judgement)
        check_repairs(cell, made, judgement)


def check_rule(cell, made, judgement):
    """The rule itself against what was put, so that a fault of the reference does not pass for the expectation."""
    lost = {offset for offset, _ in made.damaged}
    live = [offset for offset, _ in made.truth.live if offset not in lost]
    if cell.event in (CUT, CUT_THEN_MESSAGES):
        leftovers = [offset for offset, _ in made.truth.leftovers]
        assert offsets(judgement.records) in (live, live + leftovers)
        if cell.event == CUT_THEN_MESSAGES and cell.state != KILLED and cell.condition not in WITHOUT_PROOF:
            assert (judgement.why, judgement.end) == ("cut", made.truth.end)
        if cell.event == CUT and cell.state != RUNNING:
            assert (judgement.why, judgement.damaged) != ("cut", [])
    else:
        assert judgement.why != "cut"
        if cell.state != RUNNING:
            assert offsets(judgement.records) == live
            assert bool(judgement.damaged) == (cell.event != TORN)


def allowed_ends(cell, made, judgement):
    """Return the lists of offsets that readers may return: one, unless it is not known what the broker's run wrote."""
    expected = offsets(judgement.records)
    if cell.state == RUNNING and cell.condition in UNKNOWN_RUN:
        return [expected, offsets(sound_records(made.root))]
    return [expected]


def bad_bodies_of(cell, made):
    """Return the records with a body that is not its CRC's. Readers return them, unless they are asked to verify it."""
    return [offset for offset, _ in made.damaged] if cell.damage == change_body else []


def check_readers(cell, made, judgement):
    bad_bodies = bad_bodies_of(cell, made)
    allowed = allowed_ends(cell, made, judgement)
    with rocketstore.open(made.root, config=CONFIG) as store:
        found = offsets_of(store, on_corrupt="skip")
        assert [offset for offset in found if offset not in bad_bodies] in allowed
        assert offsets_of(store, on_corrupt="skip", threads=2) == found
        if len(allowed) == 1 and not bad_bodies:
            check_errors(store, judgement)
            check_last_record(cell, made, store, judgement)
        if judgement.why == "cut" and len(allowed) == 1:
            assert store.commit_log.max_phy_offset == judgement.end
            check_queues(made, store, judgement)
    with rocketstore.open(made.root, config=CONFIG, leftovers=True) as store:
        found = offsets_of(store, on_corrupt="skip")
        assert [offset for offset in found if offset not in bad_bodies] == offsets(sound_records(made.root))


def check_queues(made, store, judgement):
    """A queue ends behind the unit of its last record.

    A stale unit behind it counts too if it leads before the end of the log; RocketMQ counts it at its next start.
    """
    units, numbers = {}, {}
    for unit in read_units(made.root):
        if not unit.is_batch:
            units.setdefault(unit.number[:2], []).append((unit.number[2], unit.offset))
    for placed in judgement.records:
        if placed.has_number:
            numbers[placed.number[:2]] = placed.number[2]
    for (topic, queue_id), of_queue in units.items():
        before = list(itertools.takewhile(lambda unit: unit[1] < judgement.end, sorted(of_queue)))
        end = store.consume_queue(topic, queue_id).max_queue_offset
        assert numbers[topic, queue_id] + 1 <= end <= before[-1][0] + 1, (topic, queue_id)


def check_errors(store, judgement):
    if judgement.damaged:
        with pytest.raises(CorruptFileError):
            offsets_of(store)
    else:
        assert offsets_of(store) == offsets(judgement.records)


def check_last_record(cell, made, store, judgement):
    """The last record is found by its queue, and by its key: but new records behind a cut have no index items yet."""
    last = judgement.records[-1]
    record, place = last.record, made.root / "consumequeue" / last.record.topic / str(last.record.queue_id)
    assert store.look_message_by_offset(last.offset).phy_offset == last.offset
    if place.exists() and last.has_number:
        (found,) = store.get_message(record.topic, record.queue_id, record.queue_offset, 1)
        assert found.phy_offset == last.offset
    if "KEYS" in record.properties and cell.event != CUT_THEN_MESSAGES and (made.root / "index").exists():
        found = store.query_messages(record.topic, record.properties["KEYS"])
        assert [message.phy_offset for message in found] == [last.offset]


def check_remote_reader(made, judgement, bad_bodies):
    with contextlib.suppress(ModuleNotFoundError), rocketstore.open(f"file://{made.root}", config=CONFIG) as store:
        found = offsets_of(store, on_corrupt="skip")
        assert [offset for offset in found if offset not in bad_bodies] == offsets(judgement.records)
        if judgement.why == "cut":
            assert store.commit_log.max_phy_offset == judgement.end


def check_findings(cell, made, judgement):
    """Damage of the log is an error of verify, and a cut is none. A body that is not its CRC's always is an error."""
    report = rocketstore.verify(made.root, config=CONFIG)
    errors = [row.kind for row in report.findings if row.severity == "error" and row.kind.startswith("log-")]
    assert bool(errors) == bool(judgement.damaged or bad_bodies_of(cell, made))
    if judgement.why == "cut":
        assert report.max_phy_offset == judgement.end


def check_refusals(cell, made, judgement):
    """Recovery and opening for writing change nothing beside a broker and where damage has sound records behind it."""
    if cell.state == RUNNING:
        expected = StoreLockedError
    elif judgement.damaged:
        expected = CorruptFileError
    else:
        return
    for change in (recover, open_for_writing):
        root = made.root
        if cell.state != RUNNING:
            root = shutil.copytree(made.root, made.root.with_name(change.__name__))
        before = everything(root)
        error = error_of(change, root)
        if error is None and cell.state != RUNNING:
            check_earlier_file(made, judgement, root)
        else:
            assert isinstance(error, expected)
            assert everything(root) == before
            assert expected is StoreLockedError or all(name in str(error) for name in WAYS_ON)


def error_of(change, root):
    try:
        change(root, config=CONFIG)
    except StoreError as error:
        return error
    return None


def check_earlier_file(made, judgement, root):
    """Neither opening nor a broker's start reads damage in an earlier file, and no record is lost."""
    assert is_in_earlier_file(judgement)
    assert offsets(sound_records(root)) == offsets(sound_records(made.root))


def is_in_earlier_file(judgement):
    last_file = max(placed.offset for placed in judgement.records) // LOG_FILE
    return all(offset // LOG_FILE < last_file for offset in judgement.damaged)


def open_for_writing(root, *, config):
    rocketstore.open(root, "a", config=config).close()


def check_repairs(cell, made, judgement):
    """Recovery ends the log where the rule does, or at the first damage if asked to, and saves what it cuts off."""
    if bad_bodies_of(cell, made) and is_in_earlier_file(judgement):
        return  # recovery verifies the bodies in the last files, as a broker does
    before = everything(made.root)
    is_damaged = bool(judgement.damaged)
    end = judgement.damaged[0] if is_damaged else judgement.end
    lost = [placed for placed in sound_records(made.root) if placed.offset >= end]
    given = {"config": CONFIG, **({"cut_at_damage": True} if is_damaged else {})}
    planned = recover(made.root, dry_run=True, **given)
    assert everything(made.root) == before
    report = recover(made.root, **given)
    assert planned.max_phy_offset == report.max_phy_offset
    if is_damaged:
        bad_bodies = bad_bodies_of(cell, made)  # which are counted too
        assert planned.lost == report.lost
        assert bad_bodies or sorted(report.lost) == sorted(lost_rows(lost))
        assert sum(row.messages for row in report.lost) == len(lost) + len(bad_bodies)
    if lost:
        check_saved(made.root, before, lost)
    kept = [placed.offset for placed in judgement.records if placed.offset < end]
    assert offsets(sound_records(made.root)) == kept
    with rocketstore.open(made.root, "a", config=CONFIG) as store:
        assert offsets_of(store) == kept
        assert store.put_message(Message("Orders", b"after the repair")).phy_offset >= end
    with rocketstore.open(made.root, config=CONFIG, leftovers=True) as store:
        assert len(offsets_of(store)) == len(kept) + 1


def check_broker_policy(cell, ends_of, directory):
    """What a broker would lose is named, and what it cut off before is left where it is."""
    made = make_cell(ends_of(cell.release), cell, directory / "store")
    judgement, records = judge_cell(cell, made.root), sound_records(made.root)
    config = dataclasses.replace(CONFIG, compat=cell.release)
    before = everything(made.root)
    planned = recover(made.root, policy="broker", dry_run=True, config=config)
    assert everything(made.root) == before
    done = recover(made.root, policy="broker", config=config)
    assert planned.max_phy_offset == done.max_phy_offset
    if judgement.why == "cut":
        assert done.max_phy_offset == judgement.end
        assert offsets(sound_records(made.root)) == offsets(records)
    else:
        lost = [placed for placed in records if placed.offset >= done.max_phy_offset]
        bad_bodies = [at for at in bad_bodies_of(cell, made) if at >= done.max_phy_offset]  # which are counted too
        assert planned.lost == done.lost
        assert bad_bodies or sorted(done.lost) == sorted(lost_rows(lost))
        assert sum(row.messages for row in done.lost) == len(lost) + len(bad_bodies)


def lost_rows(lost):
    by_topic = {}
    for placed in lost:
        by_topic.setdefault(placed.record.topic, []).append(placed.record.store_timestamp)
    return [(topic, len(times), min(times), max(times)) for topic, times in by_topic.items()]


def check_saved(root, before, lost):
    """Each lost record is in a file of rocketstore-cut."""
    saved = [path.read_bytes() for path in (root / "rocketstore-cut").rglob("*") if path.is_file()]
    for placed in lost:
        start = max(int(path.name) for path in before if is_log_file(path) and int(path.name) <= placed.offset)
        data = before[root / "commitlog" / f"{start:020d}"]
        position = placed.offset - start
        record = data[position : position + placed.record.total_size]
        assert any(record in other for other in saved), placed.offset


def is_log_file(path):
    return path.parent.name == "commitlog"
