"""Reads damaged stores through the public surface and judges every answer: `assert_survived`; the rest is a subprocess.

An answer is right, or an error of a documented kind, or it says what was left out. Messages that the damage did not
touch are as they were; of the others the body is, where CRCs are checked. A crash or a hang names its damage.
"""

import faulthandler
import importlib.util
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
from support import hostile_store as damages

import rocketstore
from rocketstore import CommitLog, CorruptFileError, StoreError
from rocketstore.kernels.message_columns import MESSAGE_FIELDS

SECONDS = 10  # for one damage; where no signal is seen, twice as many
ROOM = 256 << 20  # bytes, for all that reading a store of 64 KiB may take
SHOWN = 5
PARTS = 16  # of the pipes and directories in place of files, and of the strange names
COLUMNS = [name for name in MESSAGE_FIELDS if not name.endswith("_ms")]
HAS_ARROW = importlib.util.find_spec("pyarrow") is not None
IS_SANITIZED = "san" in os.environ.get("LD_PRELOAD", "")
CONFIGS = [damages.INFERRED, damages.GIVEN]
CONSUMERS = [(None, None), ("broker", None), (None, "Tag1"), ("broker", "Tag1||Tag2")]  # limits, tags
QUERIES = [
    ("TopicTest", ["K0", "K3", "K7", "7F00000118B4AAC20000000000000003", "absent"], None),
    ("TopicTest", ["Tag1", "Tag2"], "T"),
    ("Crc", ["7F00000118B4AAC20000000000000005"], "U"),
    ("Zip", ["zlib"], "K"),
]


def assert_survived(kind, seed, directory):
    """Read the store after each damage of a kind that the seed chooses, in another process."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", __file__, kind, str(seed), str(directory)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, "MALLOC_ARENA_MAX": "2"},
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"


# ---- in the subprocess -------------------------------------------------------------------------------------


def main(kind, seed, directory):
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", ".* that cannot be decoded: body is null there")
    signal.signal(signal.SIGALRM, on_alarm)
    time.sleep = lambda seconds: None  # no process is writing here that could be waited for
    root = Path(directory) / "store"
    log = damages.build(root)
    sound = Sound(root, log)
    for config in CONFIGS:
        Reader(sound, root, sound.files, config, is_strict=True, is_whole=True).read_all()
    limit_memory()
    chosen = {
        "every byte": lambda: damages.every_byte(sound.files, seed),
        "many bytes": lambda: damages.many_bytes(sound.files, seed, 25),
        "replacements": lambda: islice(damages.replacements(sound.files), seed % PARTS, None, PARTS),
        "strange names": lambda: islice(damages.strange_names(), seed % PARTS, None, PARTS),
    }[kind]()
    options = {"is_strict": kind != "strange names", "is_whole": kind in ("strange names", "replacements")}
    failed = 0
    for number, (name, change) in enumerate(chosen):
        # Records behind the logical end of the log are read too: all intact records must be found. Some damages are
        # also read up to the logical ends.
        ends = [True, False] if number % 8 == 0 else [True]
        failed += not is_survived(name, change, sound, root, CONFIGS[number % 2], options, ends)
        (damages.write_all if options["is_whole"] else damages.restore)(root, sound.files)
    return f"{failed} damages" if failed else None


def limit_memory():
    """Refuse allocations, but not mappings of files, that no store of 64 KiB is a reason for."""
    status = Path("/proc/self/status")
    if status.exists() and not IS_SANITIZED:
        (used,) = re.findall(r"VmData:\s*(\d+) kB", status.read_text())
        resource.setrlimit(resource.RLIMIT_DATA, 2 * (1024 * int(used) + ROOM,))


def is_survived(name, change, sound, root, config, options, ends):
    """Damage and read, with leftovers or without as ``ends`` says. A failure is printed."""
    print(f"damage: {name}", file=sys.stderr, flush=True)  # the last line if this process dies
    faulthandler.dump_traceback_later(2 * SECONDS, exit=True)
    signal.alarm(SECONDS)
    try:
        change(root)
        damaged = damages.read_all(root)
        descriptors = open_descriptors()
        for leftovers in ends:
            is_strict = options["is_strict"] and leftovers
            reader = Reader(sound, root, damaged, config, **options | {"is_strict": is_strict}, leftovers=leftovers)
            reader.read_all()
        assert damages.read_all(root) == damaged, "reading has changed the store"
        assert open_descriptors() == descriptors, "a descriptor was left open"
    except Exception:
        print(f"---- {name}\n{traceback.format_exc(limit=-SHOWN)}", flush=True)
        return False
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
    return True


def on_alarm(_number, _frame):
    raise AssertionError(f"no end after {SECONDS} seconds")


def open_descriptors():
    directory = Path("/proc/self/fd")
    return len(list(directory.iterdir())) if directory.exists() else 0


class Sound:
    """What the store says before it is damaged."""

    def __init__(self, root, log):
        self.files = damages.read_all(root)
        self.sizes = {at: record.total_size for at, record in log.records}
        with rocketstore.open(root) as store:
            (self.batch,) = store.scan(columns=COLUMNS, verify_crc=True, containers=True)
            self.units = {queue: list(store.consume_queue(*queue)[0:]) for queue in store.queues()}
            self.answers = [
                offsets_by_key(store.query_messages(topic, keys, 1000, index_type=kind))
                for topic, keys, kind in QUERIES
            ]
            self.ext = {
                unit.tags_code: store.consume_queue_ext("Ext", 0).read(unit.tags_code) for unit in self.units["Ext", 0]
            }
        assert self.batch.phy_offset.tolist() == list(self.sizes)
        for message, (_, record) in zip(self.batch, log.records, strict=True):
            assert (message.topic, message.raw_body, message.size) == (record.topic, record.body, record.total_size)
        self.rows = {at: row for row, at in enumerate(self.sizes)}
        self.messages = {message.phy_offset: message.to_dict() for message in self.batch}
        self.with_crc = [at for at, record in log.records if "__CRC32#" in record.properties]


def offsets_by_key(result):
    return [result.phy_offsets[a:b].tolist() for a, b in pairwise(result.offsets.tolist())]


def ask(call, *args, also=(), **options):
    """The answer, or None for an error of a kind that damage may end in."""
    try:
        return call(*args, **options)
    except (StoreError, OSError, *also):
        return None


def is_same(one, other):
    """Whether two columns are equal."""
    if one is None or other is None:
        given = other if one is None else one
        # No column at all, or which rows have a value: None and only True are the same.
        return given is None or (getattr(given, "dtype", None) == np.bool_ and bool(given.all()))
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    parts = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
    return all(is_same(getattr(one, name), getattr(other, name)) for name in parts)


class Reader:
    """Reads all of one store that damage could have reached; `is_whole`: really all.

    is_strict: intact messages must be found. That is not possible if files are more than they were.
    """

    def __init__(self, sound, root, files, config, *, is_strict, is_whole, leftovers=False):
        self.leftovers = leftovers
        self.sound, self.root, self.files, self.config = sound, root, files, config
        self.is_strict, self.is_whole = is_strict, is_whole
        self.intact = {at for at, size in sound.sizes.items() if self.bytes_of(self.files, at, size) is not None}

    def bytes_of(self, files, at, size):
        """A record, if it is as it was."""
        name = f"commitlog/{at // damages.LOG_FILE_SIZE * damages.LOG_FILE_SIZE:020}"
        part = slice(at % damages.LOG_FILE_SIZE, at % damages.LOG_FILE_SIZE + size)
        found = files.get(name, b"")[part]
        return found if found == self.sound.files[name][part] else None

    def is_as_it_was(self, directory):
        names = (name for name in self.sound.files if name.startswith(directory))
        return all(self.files.get(name) == self.sound.files[name] for name in names)

    def read_all(self):
        store = ask(rocketstore.open, self.root, config=self.config, leftovers=self.leftovers)
        if store is not None:
            with store:
                self.read_parts(store)
                self.read_queues(store)
                if self.is_reached("index"):
                    self.read_index(store)
                if self.is_reached("commitlog"):
                    self.read_log(store)
        if self.is_reached("commitlog"):
            self.read_with_property_crc()

    def is_reached(self, directory):
        return self.is_whole or not self.is_as_it_was(directory) or not self.is_as_it_was("commitlog")

    # ---- the small parts ---------------------------------------------------------------------------------------

    def read_parts(self, store):
        """The summary of a store works with a damaged store too."""
        assert "MessageStore" in repr(store)
        about = store.summary()
        assert about.messages is None or about.messages >= 0
        ask(lambda: store.checkpoint)
        config = ask(lambda: store.broker_config)
        if config is not None and self.is_as_it_was("config"):
            assert config.consumer_offsets["group"]["TopicTest"] == {0: 5, 1: 7}
            assert not config.problems
        for lag in ask(lambda: list(store.consumer_lag())) or []:
            assert lag.lag is None or lag.lag >= 0

    # ---- the log -----------------------------------------------------------------------------------------------

    def read_log(self, store):
        log = ask(lambda: store.commit_log)
        if log is None:
            return
        repr(log)
        assert log.min_phy_offset <= log.max_phy_offset
        for threads in (1, 2):
            self.scan_and_skip(log, threads)
        self.scan_and_raise(log)
        self.read_by_offset(store, log)
        for timestamp in (damages.TIME - 1, damages.TIME + 20_000, 2**62):
            ask(store.get_phy_offset_by_time, timestamp)
        for batch in log.scan(on_corrupt="skip", topic=["TopicTest"], tag="Tag1||Tag2", key=["K2"], verify_crc=True):
            self.check_batch(batch)
        if HAS_ARROW:
            table = ask(lambda: store.scan(on_corrupt="skip", columns=COLUMNS).to_arrow())
            assert table is None or table.validate(full=True) is None

    def scan_and_skip(self, log, threads):
        """A message that is not found was skipped, or is before the first file or behind the end of the log."""
        messages = log.scan(columns=COLUMNS, verify_crc=True, on_corrupt="skip", threads=threads)
        found = set()
        for batch in messages:
            self.check_batch(batch, is_verified=True)
            found |= set(batch.phy_offset.tolist())
        lost = sorted(self.sound.sizes.keys() - found)
        for at in lost if self.is_strict else ():
            is_skipped = any(part.begin <= at < part.end for part in messages.skipped)
            is_outside = at < log.min_phy_offset or at >= max(found | self.intact, default=0)
            assert is_skipped or is_outside, f"{at} is lost in silence, threads={threads}"
            assert at not in self.intact, f"{at} is sound and was left out: {messages.skipped}"
        for part in messages.skipped:
            assert part.begin < part.end
            assert isinstance(part.error, CorruptFileError)
            assert str(part.error.path).startswith(str(self.root))

    def scan_and_raise(self, log):
        """All, or an error."""
        found = []
        try:
            for batch in log.scan(columns=COLUMNS, verify_crc=True, batch_size=50):
                self.check_batch(batch, is_verified=True)
                found += batch.phy_offset.tolist()
        except CorruptFileError as error:
            str(error)
            assert len(self.intact) < len(self.sound.sizes) or not self.is_as_it_was("commitlog") or not self.is_strict
        else:
            assert found == sorted(found)
            assert self.intact <= set(found) or not self.is_strict

    def check_batch(self, batch, is_verified=False):
        """Every message is one of the store's. Undamaged messages are unchanged, verified messages have their body."""
        offsets = batch.phy_offset.tolist()
        assert set(offsets) <= self.sound.sizes.keys(), "a message that never was"
        rows = [row for row, at in enumerate(offsets) if at in self.intact]
        got, expected = batch.take(rows), self.sound.batch.take([self.sound.rows[offsets[row]] for row in rows])
        for name in got.columns:
            assert is_same(got.columns[name], expected.columns[name]), f"{name} has changed"
        for row in sorted(set(range(len(batch))) - set(rows)):
            message = batch[row]
            if is_verified:
                assert message.raw_body == self.sound.batch[self.sound.rows[message.phy_offset]].raw_body
            self.show(message)

    def show(self, message):
        repr(message)
        ask(message.to_dict)
        ask(message._repr_html_)
        ask(lambda: message.delay_time_level)
        ask(message.decode_batch)

    def check_message(self, message):
        assert message.phy_offset in self.sound.sizes
        if message.phy_offset in self.intact:
            assert self.sound.messages[message.phy_offset].items() >= message.to_dict().items()
        self.show(message)

    def read_by_offset(self, store, log):
        offsets = np.array(list(self.sound.sizes), np.int64)
        if self.bodies_are_readable:
            batch, statuses = log.find_messages(offsets, columns=COLUMNS, verify_crc=True)
            self.check_batch(batch, is_verified=True)
            assert not self.is_strict or self.intact <= set(offsets[statuses == 0].tolist())
        batch = ask(log.get_messages, offsets, columns=COLUMNS, also=(IndexError,))
        if batch is not None:
            assert batch.phy_offset.tolist() == offsets.tolist()
            self.check_batch(batch)
        damaged = sorted(self.sound.sizes.keys() - self.intact)
        for at in [*damaged, *offsets[::29].tolist(), 1, 9215, 9216, 50_000, -1, -(2**63), 2**63 - 1]:
            for call, errors in ((store.look_message_by_offset, ()), (log.get_message, (IndexError,))):
                message = ask(call, at, also=errors)
                if message is not None:
                    self.check_message(message)
        for at in offsets[::31].tolist():
            msg_id = self.sound.messages[at]["msgId"]
            message = ask(store.query_message_by_id, msg_id)
            if message is not None:
                self.check_message(message)

    @cached_property
    def bodies_are_readable(self):
        """Whether damage has left all compressed bodies alone."""
        compressed = self.sound.batch.sys_flag & damages.COMPRESSED != 0
        return set(self.sound.batch.phy_offset[compressed].tolist()) <= self.intact and len(self.intact) > 0

    def read_with_property_crc(self):
        """Where the CRC of the whole record is checked, nothing in it is wrong."""
        log = ask(CommitLog.open, self.root / "commitlog", force_verify_prop_crc=True)
        if log is None:
            return
        found = set()
        with log:
            for batch in log.scan(verify_crc=True, on_corrupt="skip", topic=["Crc"]):
                self.check_batch(batch)
                found |= set(batch.phy_offset.tolist())
                for message in batch:
                    if message.phy_offset in self.intact:
                        continue
                    fields = message.to_dict()
                    original = self.sound.messages[message.phy_offset] | {"properties": fields["properties"]}
                    assert original.items() >= fields.items(), f"{message.phy_offset} has changed"
        assert not self.is_strict or set(self.sound.with_crc) & self.intact <= found

    # ---- queues ------------------------------------------------------------------------------------------------

    def read_queues(self, store):
        queues = ask(lambda: list(store.queues())) or []
        for topic, queue_id in {*queues, *self.sound.units}:
            queue = ask(store.consume_queue, topic, queue_id, also=(KeyError,))
            if queue is not None and self.is_reached(directory := str(queue.directory.relative_to(self.root))):
                self.read_queue(queue, directory)
                is_same = self.is_as_it_was(directory)
                for limits, tags in CONSUMERS[: 1 if is_same else None]:
                    self.consume(store, topic, queue_id, limits, tags)
        for topic in ("TopicTest", "Batch"):
            ask(store.get_offset_by_time, topic, damages.TIME + 9000, also=(KeyError, ValueError))
        ext = ask(store.consume_queue_ext, "Ext", 0, also=(KeyError,))
        for address, expected in self.sound.ext.items() if ext else ():
            unit = ask(ext.read, address)
            assert unit == expected or not self.is_as_it_was("consumequeue_ext") or not self.is_strict
        if ext:
            ext.close()

    def read_queue(self, queue, directory):
        ask(repr, queue)
        units = ask(lambda: list(queue[0:]))
        sound = self.sound.units.get((queue.topic, queue.queue_id), [])
        if units is not None and self.is_strict:
            strangers = set(units) - set(sound)
            assert len(strangers) <= self.changed_units(directory, queue.unit_size)
            if self.is_as_it_was(directory):
                assert units == sound
        least, most = ask(lambda: queue.min_queue_offset), ask(lambda: queue.max_queue_offset)
        length = ask(len, queue)
        ask(lambda: list(queue[:]))
        ask(lambda: queue[-1], also=(IndexError,))
        ask(lambda: list(queue[3:9]))
        if least is None or most is None:
            return
        assert least <= most
        assert length in (None, most - max(least, 0))
        for offset in (least, most - 1, most, least - 1):
            unit = ask(lambda offset=offset: queue[offset], also=(IndexError,))
            assert unit is None or unit.queue_offset <= offset or offset < 0
        errors = () if self.is_as_it_was("commitlog") and not self.is_whole else (ValueError,)  # without a log
        for timestamp in (0, damages.TIME + 9000, 2**62):
            for boundary in ("lower", "upper"):
                found = ask(queue.get_offset_by_time, timestamp, boundary, also=errors)
                assert found is None or least <= found <= most

    def changed_units(self, directory, unit_size):
        """How many units of a queue's files are not what they were."""
        changed = 0
        for name, data in self.files.items():
            if not name.startswith(directory):
                continue
            sound = self.sound.files.get(name, b"")
            for at in range(0, len(data), unit_size):
                changed += data[at : at + unit_size] != sound[at : at + unit_size]
        return changed

    def consume(self, store, topic, queue_id, limits, tags):
        """Get the messages of a queue as a consumer does: it goes on, and ends."""
        offset = ask(lambda: store.consume_queue(topic, queue_id).min_queue_offset) or 0
        for _ in range(100):
            result = ask(store.get_message, topic, queue_id, offset, 30, limits=limits, tag=tags)
            if result is None or offset == result.next_begin_offset:
                return
            if len(result.messages):
                self.check_batch(result.messages)
                assert result.next_begin_offset > offset
            offset = result.next_begin_offset
        raise AssertionError(f"{topic}/{queue_id} goes on for ever with limits={limits}, tags={tags}")

    # ---- the index ---------------------------------------------------------------------------------------------

    def read_index(self, store):
        index = ask(lambda: store.index, also=(ValueError,))  # where files do not show their geometry
        for file in index.files if index else ():
            repr(file)
            ask(file.select_phy_offset, "TopicTest#K0")
        for (topic, keys, kind), expected in zip(QUERIES, self.sound.answers, strict=True):
            if index is not None:
                ask(index.query_offset, topic, keys[0], index_type=kind)
            result = ask(store.query_messages, topic, keys, 1000, index_type=kind, also=(ValueError,))
            if result is None:
                continue
            repr(result)
            if self.is_as_it_was("index") and self.is_strict:
                # A damaged record may have got a key.
                assert [at for part in expected for at in part if at in self.intact] == [
                    at for at in result.phy_offsets.tolist() if at in self.intact
                ]
            if self.is_strict:
                self.check_complete(store, result, expected, topic, keys, kind)
            messages = ask(lambda result=result: result.messages)
            if messages is None:
                continue
            self.check_batch(messages)
            for i, key in enumerate(keys):
                for message in result[i]:
                    assert message.topic == topic
                    words = {"T": [message.tags], "U": [message.uniq_key]}
                    assert key in words.get(kind, [*message.keys, message.uniq_key])

    def check_complete(self, store, result, expected, topic, keys, kind):
        """A lost answer to a key is reported if the store shows the loss."""
        prefix = f"{topic}#T#" if kind == "T" else f"{topic}#"
        for i, found in enumerate(offsets_by_key(result)):
            lost = set(expected[i]) - set(found)
            is_seen = any(self.is_lost_in_log(store.commit_log, at) for at in lost)
            if lost and (is_seen or self.has_cut_file() or self.has_wild_slot(prefix + keys[i])):
                assert not result.complete[i], f"{sorted(lost)} of {keys[i]} are lost in silence"

    def is_lost_in_log(self, log, at):
        """Whether the index, if it is sound, leads to nothing between the first and the last record."""
        is_inside = log.min_phy_offset <= at < max(self.intact, default=0)
        return self.is_as_it_was("index") and is_inside and log.find_message(at) is None

    def has_cut_file(self):
        return any(
            name.startswith("index/") and len(self.files.get(name, b"")) != len(data)
            for name, data in self.sound.files.items()
        )

    def has_wild_slot(self, index_key):
        """Whether an index file, otherwise sound, has an impossible number in a key's slot."""
        place = 40 + 4 * (int(rocketstore.hash_keys([index_key])[0]) % damages.SLOTS)
        for name, sound in self.sound.files.items():
            data = self.files.get(name, b"")
            if name.startswith("index/") and data[:40] == sound[:40] and len(data) == len(sound):
                ordinal = int.from_bytes(data[place : place + 4], "big", signed=True)
                if not 0 <= ordinal <= int.from_bytes(data[36:40], "big"):
                    return True
        return False


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[3]) as scratch:
        problem = main(sys.argv[1], int(sys.argv[2]), scratch)
    sys.exit(problem)
