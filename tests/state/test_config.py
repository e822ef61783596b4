"""StoreConfig: RocketMQ's defaults, and a broker's own properties file."""

import pickle
import random
import re
import string
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import numpy as np
import pytest
from support.broker_files import LATER, LINES, UNUSABLE, changed

from rocketstore import StoreConfig
from rocketstore.compat import DIFFERENCES, NO_LMQ, TAKEN_SINCE, Compat
from rocketstore.config import DEFAULT_SIZES, camel_case
from rocketstore.survey.sizes import require_batch_size, with_default_sizes

SIZES = {
    "mapped_file_size_commit_log": 1_073_741_824,
    "mapped_file_size_consume_queue": 6_000_000,
    "mapper_file_size_batch_consume_queue": 13_800_000,
    "mapped_file_size_consume_queue_ext": 50_331_648,
    "max_hash_slot_num": 5_000_000,
    "max_index_num": 20_000_000,
}
# As MixAll.object2Properties writes a new MessageStoreConfig of 5.5.1.
ROCKETMQ_DEFAULTS = {
    "mappedFileSizeCommitLog": 1073741824,
    "mappedFileSizeConsumeQueue": 6000000,
    "mapperFileSizeBatchConsumeQueue": 13800000,
    "mappedFileSizeConsumeQueueExt": 50331648,
    "maxHashSlotNum": 5000000,
    "maxIndexNum": 20000000,
    "maxMsgsNumBatch": 64,
    "enableConsumeQueueExt": False,
    "enableMultiDispatch": False,
    "enableLmq": False,
    "enabledAppendPropCRC": False,
    "forceVerifyPropCRC": False,
    "checkCRCOnRecover": True,
    "messageIndexEnable": True,
    "messageIndexSafe": False,
    "commitLogRecoverMaxNum": 10,
    "duplicationEnable": False,
    "maxMessageSize": 4194304,
    "messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
    "flushDiskType": "ASYNC_FLUSH",
    "flushIntervalCommitLog": 500,
    "flushCommitLogLeastPages": 4,
    "flushCommitLogThoroughInterval": 10000,
    "fileReservedTime": 72,
    "storePathCommitLog": None,
    "readOnlyCommitLogStorePaths": None,
}


@pytest.fixture
def conf(tmp_path):
    """Write a broker's properties file and read it."""

    def read(text, **options):
        read.path.write_bytes(text if isinstance(text, bytes) else text.encode("iso-8859-1"))
        return StoreConfig.from_broker_conf(read.path, **options)

    read.path = tmp_path / "broker.conf"
    return read


def test_an_empty_broker_file_gives_rocketmqs_defaults(conf):
    config = conf("")
    ours = {camel_case(entry.name): getattr(config, entry.name) for entry in fields(config)}
    # A producer's and a broker's own default, and what RocketMQ has no setting for.
    besides = {"defaultTopicQueueNums": 4, "allocateFileAhead": True, "storeHost": "127.0.0.1:10911"}
    besides |= {"writeElsewhere": False, "allowUnreadable": False, "remoteCopyLimit": 1 << 30, "preallocate": False}
    besides["smallIfNew"] = False
    besides["tieredStoreFilePath"] = None  # RocketMQ has one in the user's home, also without tiered storage
    assert ours == {**ROCKETMQ_DEFAULTS, **besides, "compat": "5.5.1", "other": {}}


def test_without_a_broker_file_sizes_are_left_to_the_files_and_all_else_is_the_same(conf):
    assert replace(StoreConfig(), **SIZES) == conf("")
    assert SIZES == DEFAULT_SIZES
    assert all(getattr(StoreConfig(), name) is None for name in SIZES)


def test_the_small_layout_knows_every_size():
    config = StoreConfig.small()
    assert config.mapped_file_size_commit_log == 1024 * 1024
    assert (config.max_hash_slot_num, config.max_index_num) == (100_000, 400_000)
    assert all(getattr(config, name) > 0 for name in SIZES)
    assert not config.allocate_file_ahead


def test_a_config_is_frozen_hashable_and_pickles(conf):
    config = conf("maxIndexNum=7\nbrokerName=b")
    with pytest.raises(FrozenInstanceError):
        config.max_index_num = 8
    again = pickle.loads(pickle.dumps(config))
    assert again == config
    assert hash(again) == hash(config)
    assert config != conf("maxIndexNum=7\nbrokerName=c")


@pytest.mark.parametrize(
    ("given", "kept"), [(1, 20), (19, 20), (20, 20), (21, 40), (1981, 2000), (2_147_483_640, 2_147_483_640)]
)
def test_the_size_of_a_consume_queue_file_is_rounded_up_to_whole_units(conf, given, kept):
    assert StoreConfig(mapped_file_size_consume_queue=given).mapped_file_size_consume_queue == kept
    assert conf(f"mappedFileSizeConsumeQueue={given}").mapped_file_size_consume_queue == kept


def test_the_size_of_a_batch_consume_queue_file_is_not_rounded():
    assert StoreConfig(mapper_file_size_batch_consume_queue=47).mapper_file_size_batch_consume_queue == 47


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("size", [0, -1, 2**31, -(2**63)])
def test_a_size_that_is_no_positive_int_is_refused(name, size):
    with pytest.raises(ValueError, match=name):
        StoreConfig(**{name: size})


def test_a_consume_queue_size_that_overflows_when_it_is_rounded_is_refused():
    with pytest.raises(ValueError, match="mapped_file_size_consume_queue"):
        StoreConfig(mapped_file_size_consume_queue=2**31 - 1)


@pytest.mark.parametrize(
    "given",
    [
        {"max_message_size": 2**31},
        {"commit_log_recover_max_num": -(2**31) - 1},
        {"flush_disk_type": "sync"},
        {"message_delay_level": ""},
        {"message_delay_level": "1s  5s"},
        {"message_delay_level": "1s 5y"},
        {"message_delay_level": "1234567890d"},
        {"message_delay_level": " ".join(["1s"] * 65)},
        {"file_reserved_time": -1},
        {"flush_interval_commit_log": 0},
        {"flush_commit_log_least_pages": -1},
        {"flush_commit_log_thorough_interval": -1},
        {"default_topic_queue_nums": 0},
        {"compat": "3.0"},
        {"store_host": "localhost"},
        {"store_host": "127.0.0.1"},
    ],
    ids=str,
)
def test_a_value_that_rocketmq_could_not_have_is_refused(given):
    with pytest.raises(ValueError, match=next(iter(given))):
        StoreConfig(**given)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_index_num", "400"),
        ("max_index_num", True),
        ("max_msgs_num_batch", 64.0),
        ("mapped_file_size_consume_queue", "6000000"),
        ("file_reserved_time", None),
        ("enable_lmq", "false"),
        ("store_path_commit_log", Path("log")),
        ("other", None),
    ],
)
def test_a_value_of_another_type_is_a_type_error_that_names_it(name, value):
    with pytest.raises(TypeError, match=rf"^{name}={re.escape(repr(value))}: must be "):
        StoreConfig(**{name: value})


def test_numbers_of_numpy_are_kept_as_pythons():
    config = StoreConfig(max_index_num=np.int64(400), mapped_file_size_consume_queue=np.int32(30))
    assert (type(config.max_index_num), type(config.mapped_file_size_consume_queue)) == (int, int)
    assert StoreConfig(mapped_file_size_consume_queue=np.uint32(6_000_000)).mapped_file_size_consume_queue == 6_000_000


def test_every_key_of_rocketmq_is_read(conf):
    lines = {
        name: {bool: str(not value).lower(), int: "4000"}.get(type(value), "/a/b")
        for name, value in ROCKETMQ_DEFAULTS.items()
    }
    lines |= {"flushDiskType": "SYNC_FLUSH", "messageDelayLevel": "1s 2h"}
    config = conf("".join(f"{name}={text}\n" for name, text in lines.items()))
    for entry in fields(config):
        name = camel_case(entry.name)
        if name in lines:
            value = getattr(config, entry.name)
            assert (str(value).lower() if isinstance(value, bool) else str(value)) == lines[name]
    assert config.other == {}


def test_keys_that_matter_to_the_broker_alone_are_kept_as_text(conf):
    config = conf("brokerName = broker-a\ncompat=4.9\nother=x\nallocateFileAhead=48 \nStoreType=x")
    # Trailing blanks are part of a value in Java.
    assert config.other == {
        "brokerName": "broker-a",
        "compat": "4.9",
        "other": "x",
        "allocateFileAhead": "48 ",
        "StoreType": "x",
    }
    assert config.allocate_file_ahead
    assert config.compat == "5.5.1"


def test_properties_that_5_5_1_added_are_kept_beside_those_that_are_used(conf):
    added = {
        "maxCheckMessageReuseBufferSize": "1048576",
        "correctMinOffsetMadviseEnable": "true",
        "rocksdbCQSelectiveDoubleWriteEnable": "false",
        "rocksdbMaxSizeAmplificationPercent": "25",
        "popRocksdbBlockCacheSize": "268435456",
        "popRocksdbWriteBufferSize": "33554432",
    }
    assert conf("".join(f"{name}={value}\n" for name, value in added.items())).other == added


@pytest.mark.parametrize(("line", "expected", "warning"), LINES, ids=[line[:60] for line, _, _ in LINES])
def test_a_line_of_a_brokers_file_has_the_effect_that_it_has_on_the_broker(conf, caplog, line, expected, warning):
    assert changed(conf(f"# one\nbrokerId=0\n\n{line}\nmaxMessageSize=4194304\n")) == expected
    assert len(caplog.records) == (warning is not None)
    assert warning is None or (warning in caplog.text and "broker.conf, line " in caplog.text)


def test_a_line_without_effect_is_warned_of_once(conf, caplog):
    for _ in range(3):
        conf("mapedFileSizeCommitLog=4096")
    assert [record.getMessage() for record in caplog.records] == [
        f"{conf.path}, line 1: mapedFileSizeCommitLog='4096' has no effect: RocketMQ ignores this name, "
        "the property is mappedFileSizeCommitLog"
    ]


@pytest.mark.parametrize(("line", "name", "value"), UNUSABLE, ids=[line for line, _, _ in UNUSABLE])
def test_a_value_that_cannot_be_used_is_an_error_where_it_is_needed_alone(conf, caplog, line, name, value):
    config = conf(f"{line}\nmaxMessageSize=5")
    kept = value if name in DEFAULT_SIZES and value in (23, 1000) else getattr(StoreConfig, name)
    assert (getattr(config, name), config.max_message_size) == (kept, 5)
    assert f"line 1: {line.partition('=')[0]}=" in caplog.text
    config.require_usable("max_message_size")
    for again in (config, replace(config, max_message_size=6), pickle.loads(pickle.dumps(config))):
        with pytest.raises(ValueError, match=rf"broker.conf, line 1: {line.partition('=')[0]}.*cannot use it: {name}="):
            again.require_usable("max_message_size", name)
    good = {"message_delay_level": "1s"}.get(name, 46)
    replace(config, **{name: good}).require_usable(name)


@pytest.mark.parametrize(("line", "name", "before", "since"), LATER, ids=[line for line, *_ in LATER])
def test_a_property_that_came_after_the_release_has_no_effect(conf, caplog, line, name, before, since):
    key, default = line.partition("=")[0], getattr(conf(""), name)
    assert (getattr(conf(line, compat=before), name), caplog.text.count("has no effect")) == (default, 1)
    assert conf(line, compat=before).other == {key: line.partition("=")[2]}
    assert f"RocketMQ {before} ignores {key}, which came with {since}" in caplog.text
    config = conf(line, compat=since)
    assert (getattr(config, name) != default, config.compat, config.other) == (True, since, {})
    caplog.clear()
    if name in DEFAULT_SIZES:
        return  # of batch queues, which older releases do not have
    older = replace(config, compat=before)
    assert (getattr(older, name), f"{name}=" in caplog.text) == (getattr(StoreConfig, name), True)


def test_every_property_that_came_after_the_oldest_release_is_tested():
    assert {(name, tuple(map(int, since.split(".")))) for _, name, _, since in LATER} == {*TAKEN_SINCE.items()}


def test_before_5_2_0_blanks_around_a_text_belong_to_it(conf, caplog):
    assert conf("flushDiskType=SYNC_FLUSH ", compat="5.1.4").flush_disk_type == "ASYNC_FLUSH"
    assert "none of ASYNC_FLUSH, SYNC_FLUSH" in caplog.text
    assert conf("flushDiskType=SYNC_FLUSH ", compat="5.2.0").flush_disk_type == "SYNC_FLUSH"


def test_before_4_9_2_a_path_with_commas_is_one_directory():
    config = StoreConfig(store_path_commit_log="/a,/b", compat="4.9.1")
    assert config.commit_log_paths("/root") == [Path("/a,/b")]


def test_a_size_that_no_queue_of_the_store_needs_is_not_checked(conf):
    given = conf("mapperFileSizeBatchConsumeQueue=1000\nmappedFileSizeConsumeQueueExt=10")
    with_default_sizes(given)
    with pytest.raises(ValueError, match="mapper_file_size_batch_consume_queue=1000: must be a multiple of 46"):
        require_batch_size(with_default_sizes(given))
    require_batch_size(with_default_sizes(replace(given, mapper_file_size_batch_consume_queue=460)))
    with pytest.raises(ValueError, match="mapper_file_size_batch_consume_queue=0: must be 1 to"):
        require_batch_size(with_default_sizes(conf("mapperFileSizeBatchConsumeQueue=0")))
    with pytest.raises(ValueError, match="mapped_file_size_consume_queue_ext=10: must be 24 at least"):
        with_default_sizes(replace(given, enable_consume_queue_ext=True))


def test_a_size_of_the_brokers_file_that_cannot_be_used_is_refused_for_a_new_file_and_not_where_files_show_it(conf):
    config = conf("mappedFileSizeCommitLog=-1\nmaxIndexNum=0")
    with pytest.raises(ValueError, match="line 1: mappedFileSizeCommitLog='-1'"):
        with_default_sizes(config)
    with pytest.raises(ValueError, match="line 2: maxIndexNum='0'"):
        with_default_sizes(replace(config, mapped_file_size_commit_log=65536))
    with_default_sizes(replace(config, mapped_file_size_commit_log=65536, message_index_enable=False))


def test_the_last_of_several_values_counts(conf):
    assert conf("maxIndexNum=7\nmaxIndexNum=8\n").max_index_num == 8


def test_text_is_trimmed_and_numbers_may_have_a_sign(conf):
    config = conf("flushDiskType=SYNC_FLUSH \t\nmaxIndexNum=+9\nenableLmq=TRUE\ncommitLogRecoverMaxNum=-1")
    assert config.flush_disk_type == "SYNC_FLUSH"
    assert (config.max_index_num, config.enable_lmq, config.commit_log_recover_max_num) == (9, True, -1)


@pytest.mark.parametrize("line", ["storePathCommitLog=\\u12", "brokerName=\\uzzzz"])
def test_an_escape_that_stops_a_broker_is_refused_with_path_line_and_key(conf, line):
    with pytest.raises(ValueError, match=f"broker.conf, line 4, {line.partition('=')[0]}: ") as caught:
        conf(f"# one\nbrokerId=0\n\n{line}\nmaxMessageSize=5\n")
    assert str(conf.path) in str(caught.value)


def test_lines_are_counted_through_comments_continuations_and_all_ends_of_line(conf, caplog):
    conf("#\r\na=\\\r\n  b\rc=d\n\n!\\\nmaxIndexNum=x")
    assert "line 7: maxIndexNum='x'" in caplog.text


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        StoreConfig.from_broker_conf(tmp_path / "none.conf")


# (file, what java.util.Properties of Java 17 reads from it)
PROPERTIES = [
    ("a=b", {"a": "b"}),
    ("a:b", {"a": "b"}),
    ("a b", {"a": "b"}),
    ("a\tb", {"a": "b"}),
    ("a\fb", {"a": "b"}),
    ("  a  =  b  ", {"a": "b  "}),
    ("a = : b", {"a": ": b"}),
    ("a==b", {"a": "=b"}),
    ("a", {"a": ""}),
    ("a=", {"a": ""}),
    ("=b", {"": "b"}),
    ("", {}),
    ("\n \t\f\n\r\r\n", {}),
    ("#a=b\n!c=d\n  # e=f\n", {}),
    ("a=#b", {"a": "#b"}),
    ("a#b=c", {"a#b": "c"}),
    ("#a\\\nb=c", {"b": "c"}),
    ("a=b\rc=d\r\ne=f", {"a": "b", "c": "d", "e": "f"}),
    ("a=b\\\n   c", {"a": "bc"}),
    ("a=b\\\r\n\t\f c", {"a": "bc"}),
    ("a=b\\\n", {"a": "b"}),
    ("a=b\\", {"a": "b"}),
    ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
    ("a=b\\\\\\\nc=d", {"a": "b\\c=d"}),
    ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
    ("a=b\\\n#c", {"a": "b#c"}),
    ("ke\\\n  y=v", {"key": "v"}),
    ("key\\\n  =v", {"key": "v"}),
    ("key \\\n  = \\\n v", {"key": "v"}),
    ("key \\\n v", {"key": "v"}),
    ("\\\n#a=b", {}),
    ("\\\n  a=b", {"a": "b"}),
    ("a\\=b=c", {"a=b": "c"}),
    ("a\\:b:c", {"a:b": "c"}),
    ("a\\ b c", {"a b": "c"}),
    ("\\#a=b", {"#a": "b"}),
    ("\\ a=b", {" a": "b"}),
    ("a=\\t\\n\\r\\f\\b\\z\\'\\\"\\\\", {"a": "\t\n\r\fbz'\"\\"}),
    ("a=\\ b", {"a": " b"}),
    ("a=\\u0041\\u00e9\\u4e2d", {"a": "Aé中"}),
    ("a=\\uD83D\\uDE00", {"a": "😀"}),
    ("\\u0061\\u003d=b", {"a=": "b"}),
    ("a=\\\\u0041", {"a": "\\u0041"}),
    ("a=\xe9\xff\x85\x0b", {"a": "éÿ\x85\x0b"}),
    ("a=b\0c", {"a": "b\0c"}),
]


@pytest.mark.parametrize(("text", "expected"), PROPERTIES, ids=[repr(text) for text, _ in PROPERTIES])
def test_a_properties_file_is_read_as_java_reads_it(conf, text, expected):
    assert conf(text).other == expected


def test_a_file_is_latin_1_whatever_was_meant(conf):
    assert conf("a=é".encode()).other == {"a": "Ã©"}


def escaped(text, rng):
    """A text as Properties.store may write it."""
    written = []
    for character in text:
        code = character.encode("utf-16-be").hex()
        units = "".join(f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))
        plain = ord(character) < 256 and character not in "\\=:#! \t\f\r\n"
        named = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}.get(character, f"\\{character}")
        choices = [character] if plain else [units]
        if character in named and character not in string.ascii_letters and ord(character) < 256:
            choices.append(named)
        written += [rng.choice(["", "", "", "\\\n \t", "\\\r\n"]), rng.choice([*choices, units])]
    return "".join(written)


def test_an_escaped_value_is_read_unchanged(conf, seed):
    rng = random.Random(seed)
    alphabet = "ab\\=:#! \t\f\r\n'\"\0\x7f\x85\xa0éÿ中\u2028😀u0"
    for _ in range(300):
        key = "k" + "".join(rng.choices(alphabet, k=rng.randrange(6)))
        value = "".join(rng.choices(alphabet, k=rng.randrange(12)))
        separator = rng.choice(["=", ":", " ", " = ", "\t:\f", " \\\n = "])
        assert conf(f"{escaped(key, rng)}{separator}{escaped(value, rng)}").other == {key: value}


def test_any_bytes_are_read_or_refused_as_bad(tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "broker.conf"
    pieces = [b"\\", b"\n", b"\r", b"=", b":", b"#", b" ", b"\\u", b"0041", b"maxIndexNum", b"enableLmq", b"9", b"true"]
    refusals = []
    for _ in range(500):
        path.unlink(missing_ok=True)
        path.write_bytes(b"".join(rng.choices([*pieces, rng.randbytes(2)], k=rng.randrange(12))))
        try:
            StoreConfig.from_broker_conf(path)
        except ValueError as error:
            refusals.append(str(error))
    assert len(refusals) < 500
    assert all(text.startswith(f"{path}, line ") and text.endswith("hexadecimal digits") for text in refusals)


def test_the_log_is_under_the_root_unless_a_path_is_given():
    assert StoreConfig().commit_log_paths("/root") == [Path("/root/commitlog")]
    assert StoreConfig(store_path_commit_log=" ").commit_log_paths("/root") == [Path("/root/commitlog")]
    assert StoreConfig(store_path_commit_log=" /data/log ").commit_log_paths("/root") == [Path("/data/log")]


def test_a_path_with_commas_is_several_directories_each_once_read_only_ones_last():
    config = StoreConfig(store_path_commit_log=" /b,/a,,/b, /c ", read_only_commit_log_store_paths="/d,/a")
    assert config.commit_log_paths("/root") == [Path("/b"), Path("/a"), Path(" /c").absolute(), Path("/d")]


def test_read_only_paths_count_only_beside_several_others():
    config = StoreConfig(store_path_commit_log="/a", read_only_commit_log_store_paths="/b,/c")
    assert config.commit_log_paths("/root") == [Path("/a")]


@pytest.mark.parametrize("paths", ["/a,/b", "/a,", ",/a"])
def test_a_log_of_nothing_but_read_only_paths_is_read_and_cannot_be_written(paths):
    config = StoreConfig(store_path_commit_log=paths, read_only_commit_log_store_paths="/a,/b")
    assert config.commit_log_paths("/root") == [Path("/a"), Path("/b")]
    with pytest.raises(ValueError, match="read_only_commit_log_store_paths"):
        config.commit_log_paths("/root", writable=True)


# (difference, release before it, the first with it, what it was, what it is)
CHANGES = [
    ("counts_every_put", "4.7.0", "4.7.1", True, False),
    ("indexes_tags", "5.3.3", "5.4.0", False, True),
    ("batch_properties", "4.7.1", "4.8.0", "none", "joined"),
    ("batch_properties", "4.9.2", "4.9.3", "joined", "separated"),
    ("batch_properties", "5.3.3", "5.4.0", "separated", "none"),
    ("trailing_separator", "4.9.0", "4.9.1", True, False),
    ("trailing_separator", "5.1.4", "5.2.0", False, True),
    ("has_ipv6", "4.5.2", "4.6.0", False, True),
    ("has_compression_types", "4.9.3", "4.9.4", False, True),
    ("has_inner_batches", "4.9.8", "5.0.0", False, True),
    ("has_clean_ratios", "4.9.8", "5.0.0", False, True),
    ("has_v2", "5.0.0", "5.1.0", False, True),
    ("has_prop_crc", "5.1.4", "5.2.0", False, True),
    ("has_confirm_phy_offset", "5.1.0", "5.1.1", False, True),
    ("has_logics_physical_offset", "5.4.0", "5.5.0", False, True),
    ("has_multi_dispatch", "4.9.2", "4.9.3", False, True),
    ("has_multi_dispatch", "5.3.1", "5.3.2", True, False),
    ("keeps_wait", "5.1.4", "5.2.0", False, True),
    ("last_files", "5.3.1", "5.3.2", 3, 1),
    ("no_lmq", "4.9.2", "4.9.3", "", NO_LMQ),
    ("no_lmq", "5.4.0", "5.5.0", NO_LMQ, f"%DLQ%|{NO_LMQ}"),
    ("no_multi_dispatch", "4.9.2", "4.9.3", "", "(?!)"),
    ("no_multi_dispatch", "5.1.0", "5.1.1", "(?!)", "%RETRY%"),
    ("no_multi_dispatch", "5.1.1", "5.1.2", "%RETRY%", r"%RETRY%|(rmq_sys_wheel_timer|SCHEDULE_TOPIC_XXXX)\Z"),
    ("no_multi_dispatch", "5.1.4", "5.2.0", r"%RETRY%|(rmq_sys_wheel_timer|SCHEDULE_TOPIC_XXXX)\Z", NO_LMQ),
    ("resets_empty_queues", "5.5.0", "5.5.1", False, True),
    ("limits_recovery", "5.3.3", "5.4.0", False, True),
    ("refuses_negative_sizes", "5.5.0", "5.5.1", False, True),
    ("reads_queue_ends_again", "5.3.3", "5.4.0", False, True),
    ("starts_with_empty_queue_files", "5.3.3", "5.4.0", False, True),
    ("has_multi_path", "4.9.1", "4.9.2", False, True),
    ("trims_texts", "5.1.4", "5.2.0", False, True),
]


@pytest.mark.parametrize(("name", "before", "since", "was", "now"), CHANGES)
def test_a_release_writes_as_it_did_until_the_next_one_changed_it(name, before, since, was, now):
    assert getattr(Compat.of(before), name) == was
    assert getattr(Compat.of(since), name) == now


def test_every_difference_has_its_releases_tested():
    tested = {(name, since) for name, _, since, _, _ in CHANGES}
    assert tested == {
        (name, ".".join(map(str, since))) for name, values in DIFFERENCES.items() for since in list(values)[1:]
    }


def test_a_release_of_two_numbers_is_its_last_patch():
    assert Compat.of("4.9").batch_properties == Compat.of("4.9.8").batch_properties == "separated"
    assert Compat.of("5.1").has_confirm_phy_offset
    assert replace(Compat.of("5.5"), release="5.5.1") == Compat.of("5.5.1")


@pytest.mark.parametrize("release", ["4.5.1", "5.5.2", "6.0.0", "5", "5.3.3.1", "", "5.x", " ", "5.5.0\n", None, 5.3])
def test_a_text_that_is_no_release_is_refused(release):
    with pytest.raises(ValueError, match="compat="):
        Compat.of(release)


def test_a_configuration_with_all_sizes_looks_like_any_other():
    given = StoreConfig(max_index_num=7, compat="5.3")
    sized = with_default_sizes(given)
    equal = StoreConfig(**DEFAULT_SIZES | {"max_index_num": 7}, compat="5.3")
    assert (sized, hash(sized), repr(sized)) == (equal, hash(equal), repr(equal))
    assert (equal == sized, sized == given, sized == 1) == (True, False, False)
    assert type(sized.as_store_config(max_index_num=None)) is StoreConfig


def test_a_configuration_with_all_sizes_keeps_them():
    sized = with_default_sizes(StoreConfig())
    assert type(replace(sized, compat="5.3")) is type(sized)
    with pytest.raises(TypeError, match="max_index_num=None: must be int"):
        replace(sized, max_index_num=None)
