"""Ends of logs that RocketMQ's own classes cut, against the truth of what was put."""

import random
import shutil

import pytest
from reference.commit_log import parse_record, read_files
from reference.log_end import judge, read_units
from support.log_ends import (
    BATCHES,
    CONFIG,
    DAMAGES,
    LOG_FILE,
    MIXED,
    RELEASES,
    Ends,
    add_batch_topics,
    one_millisecond,
    set_times,
    sound_records,
    zero,
)

import rocketstore
from interop.histories import History, Writer, config_of, make_stores, write_archive
from rocketstore import CorruptFileError, StoreLockedError, recover

pytestmark = pytest.mark.interop

HISTORIES, ROUNDS = 20, 3


# ---- the archives --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
def test_the_archives_are_what_rocketmq_makes(java_of, tmp_path, release):
    truth = make_stores(java_of(release), tmp_path / "made")
    write_archive(tmp_path / "made", truth, tmp_path / "made.tar.xz")
    kept = Ends(release, tmp_path / "kept")
    made = Ends(release, tmp_path / "again", archive=tmp_path / "made.tar.xz")
    assert made.truth == kept.truth
    for name in kept.truth:
        assert contents(made.directory / name) == contents(kept.directory / name), name
        for state in ("stopped", "crashed"):
            assert summary(judge(made.directory / name, state)) == summary(judge(kept.directory / name, state)), name


def contents(root):
    """The names of files, and units and records without their times."""
    names = sorted(
        "index" if path.parent.name == "index" else str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file()
    )
    records = [(placed.offset, placed.record.total_size, placed.number) for placed in sound_records(root)]
    return names, read_units(root), records


def summary(judgement):
    return judgement.end, judgement.why, judgement.damaged, len(judgement.records)


# ---- a running broker ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("runs", [1, 2])
def test_damage_behind_which_a_running_broker_writes_is_shown(java_of, tmp_path, release, runs):
    """Damage of records of this run, or of the run before."""
    history, writer = History(java_of(release), tmp_path / "store"), Writer(release)
    history.start()
    history.put(writer.put(MIXED, 40))
    if runs == 2:
        history.stop()
        history.start()
    offset = history.damage(zero, -10)
    history.put(writer.put(MIXED, 5))
    try:
        found = offsets_of(history.root)
        with pytest.raises(StoreLockedError):
            recover(history.root, config=CONFIG)
    finally:
        history.stop()
    assert found == [place for place, _ in history.places if place != offset]
    assert offsets_of(history.root) == found
    with pytest.raises(CorruptFileError):
        recover(history.root, config=CONFIG)


@pytest.mark.parametrize("release", RELEASES)
def test_beside_a_running_broker_the_log_ends_where_it_cut_it(java_of, tmp_path, release):
    history, writer = History(java_of(release), tmp_path / "store"), Writer(release)
    history.start()
    history.put(writer.put(MIXED, 40))
    history.stop()
    cut = history.damage(zero, -10)
    assert history.start() == cut
    try:
        assert offsets_of(history.root) == [place for place, _ in history.places]
        history.put(writer.put(MIXED, 3, shorter=41))
        assert offsets_of(history.root) == [place for place, _ in history.places]
    finally:
        history.stop()
    assert offsets_of(history.root) == [place for place, _ in history.places]


def offsets_of(root):
    add_batch_topics(root)
    with rocketstore.open(root, config=CONFIG) as store:
        return [
            offset
            for batch in store.scan(columns=["phy_offset"], on_corrupt="skip")
            for offset in batch.phy_offset.tolist()
        ]


# ---- random histories ----------------------------------------------------------------------------------------


class RandomHistory(History):
    """A history of random runs. damaged: the records that were damaged and not cut off since."""

    def __init__(self, java, root, rng):
        flush = rng.choice(("ASYNC_FLUSH", "ASYNC_FLUSH", "SYNC_FLUSH"))
        super().__init__(java, root, config=config_of(flushDiskType=flush))
        self.rng = rng
        self.writer = Writer(java.release)
        self.damaged = set()

    def write(self, count):
        family = self.rng.choice((MIXED, MIXED, BATCHES))
        self.put(self.writer.put(family, count, shorter=self.rng.randrange(120)))

    def damage_some(self):
        """Damage one to three records, most of them near the end."""
        near = self.rng.random() < 0.8
        first = self.rng.randrange(1, min(25, len(self.places)) if near else len(self.places))
        for number in range(self.rng.choice((1, 1, 1, 2, 3))):
            if first > number:
                before = {placed.offset for placed in sound_records(self.root)}
                self.damage(self.rng.choice(DAMAGES), -(first - number))
                self.damaged |= before - {placed.offset for placed in sound_records(self.root)}

    def change_times(self):
        """Give all records one time, or times that fall, or set the clock back before one of them."""
        count = len(sound_records(self.root))
        kind, first = self.rng.choice(("", "same", "fall", "back")), self.rng.randrange(count)
        if kind == "same":
            one_millisecond(self.root)
        elif kind == "fall":
            set_times(self.root, lambda number, record: (record.born_timestamp, record.store_timestamp - 1000 * number))
        elif kind == "back":
            set_times(
                self.root,
                lambda number, record: (record.born_timestamp, record.store_timestamp - 10**6 * (number >= first)),
            )

    @property
    def live(self):
        return [offset for offset, _ in self.places if offset not in self.damaged]


@pytest.mark.parametrize("release", ["5.5.1", "4.9.8"])
def test_no_damage_of_a_random_history_is_taken_for_a_cut(java_of, tmp_path, seed, release):
    java, rng = java_of(release), random.Random(f"{seed} {release}")
    histories = [RandomHistory(java, tmp_path / str(number), rng) for number in range(HISTORIES)]
    for number in range(ROUNDS):
        for history in histories:
            end = history.start()
            history.damaged = {offset for offset in history.damaged if offset < end}
            history.write(rng.randint(60, 100) if number == 0 else rng.randint(0, 6))
        is_last = number == ROUNDS - 1
        end_runs(java, [(history, not is_last and rng.random() < 0.2) for history in histories])
        for history in histories:
            if rng.random() < 0.85 and not is_last:
                history.damage_some()
    for history in histories:
        check_end(history)
        if rng.random() < 0.5:
            history.change_times()
        history.damage_some()
        check_end(history)


def end_runs(java, runs):
    """Stop or kill stores. runs: (history, whether it is killed)."""
    killed = [history for history, is_killed in runs if is_killed]
    for history in killed:
        shutil.copytree(history.root, history.root.with_name(f"{history.root.name}-killed"))
    java.stop(*(history.root for history, _ in runs))
    for history in killed:
        shutil.rmtree(history.root)
        history.root.with_name(f"{history.root.name}-killed").rename(history.root)


def check_end(history):
    """Nothing sound is hidden, and the package judges as the reference does."""
    judgement = judge(history.root, "stopped")
    expected = [placed.offset for placed in judgement.records]
    assert set(history.live) <= set(expected), summary(judgement)
    found = offsets_of(history.root)
    more = set(found) - set(expected)  # readers return a body that is not its CRC's
    assert all(has_bad_body(history.root, offset) for offset in more), (more, summary(judgement))
    assert [offset for offset in found if offset not in more] == expected, summary(judgement)


def has_bad_body(root, offset):
    data = read_files(root / "commitlog")[offset // LOG_FILE * LOG_FILE]
    return parse_record(data, offset % LOG_FILE, check_crc=False).record is not None
