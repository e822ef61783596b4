"""Each function and command that takes a store's path has a row in the table, and refuses what the row names."""

import inspect
import os
import shutil

import pytest
from support.places import TEXT
from support.profiles import SMALL

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.config import camel_case
from rocketstore.survey import requirements
from rocketstore.survey.requirements import ENTRIES

BATCH_TOPIC = '{"topicConfigTable":{"B":{"topicName":"B","attributes":{"queue.type":"BatchCQ"}}}}'

# ---- stores that lack what is required -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with one message, of which each test gets a copy."""
    root = tmp_path_factory.mktemp("made") / "store"
    with rocketstore.open(root, "a", config=StoreConfig(**SMALL)) as store:
        store.put_message(Message("T", b"body", keys=["key"]))
    return root


def make_database(directory):
    directory.mkdir(parents=True)
    (directory / "CURRENT").write_text("MANIFEST-000001\n")


def few_descriptors(root, monkeypatch):
    def refuse(path):
        raise OSError(f"{path}: too few descriptors")

    monkeypatch.setattr(requirements, "require_descriptors_to_read", refuse)
    monkeypatch.setattr(requirements, "require_descriptors_to_write", refuse)


def empty(root, monkeypatch):
    shutil.rmtree(root)
    root.mkdir()


def with_a_foreign_file(root, monkeypatch):
    empty(root, monkeypatch)
    (root / "letter.txt").touch()


def with_a_store_below(root, monkeypatch):
    root.rename(root.with_name("below"))
    root.mkdir()
    root.with_name("below").rename(root / "below")


def with_dledger(root, monkeypatch):
    (root / "dledger-n0").mkdir()


def with_queues_in_rocksdb(root, monkeypatch):
    make_database(root / "consumequeue_rocksdb")
    shutil.rmtree(root / "consumequeue")


def with_config_in_rocksdb(root, monkeypatch):
    make_database(root / "config" / "rdb")


def with_a_shared_file(root, monkeypatch):
    os.link(root / "checkpoint", root.with_name("shared"))


def with_a_batch_topic(root, monkeypatch):
    (root / "config" / "topics.json").write_text(BATCH_TOPIC)


def unchanged(root, monkeypatch):
    pass


ROCKSDB = {"storeType": "defaultRocksDB"}


def being_written(root, monkeypatch):
    monkeypatch.setattr(requirements, "is_held", lambda lock: True)


def with_a_log_elsewhere(root, monkeypatch):
    (root / "commitlog").rename(root / "cl0")


# By the name of each requirement: how a store that lacks it is made, more lines of the broker's file, and the words.
LACKING = {
    "descriptors_to_read": (few_descriptors, {}, "too few descriptors"),
    "descriptors_to_write": (few_descriptors, {}, "too few descriptors"),
    "a_store": (empty, {}, "{root}: no store is here, neither commitlog nor consumequeue nor index"),
    "a_store_or_index_files": (empty, {}, "{root}: no store and no index files here"),
    "a_store_or_its_config": (empty, {}, "{root}: no store is here, neither commitlog nor consumequeue nor index"),
    "a_store_or_an_empty_root": (with_a_foreign_file, {}, "{root}: is not a store, and is not empty"),
    "no_other_store_here": (with_a_store_below, {}, "{root}: a new store is not made in a directory with other stores"),
    "a_log_in_files": (with_dledger, {}, "{root}: the commit log is DLedger's, which is read but not changed"),
    "files_to_patch": (with_dledger, {}, "{root}: the commit log is DLedger's, and patch writes only into files"),
    "queues_in_files": (with_queues_in_rocksdb, ROCKSDB, "the queues are in RocksDB, which is not written"),
    "config_in_files": (with_config_in_rocksdb, {"configManagerVersion": "v2"}, "offsets are in RocksDB, which is not"),
    "a_named_log": (with_a_log_elsewhere, {}, "{root}: the commit log is not in commitlog, but by its files in cl0"),
    "a_found_log": (unchanged, {"storePathCommitLog": "/nowhere/log"}, "{root}: the commit log is not at /nowhere/log"),
    "a_found_or_new_log": (
        unchanged, {"storePathCommitLog": "/nowhere/log"}, "{root}: the commit log is not at /nowhere/log"
    ),
    "a_writable_log": (
        unchanged,
        {"storePathCommitLog": "{root}/commitlog,{root}/x", "readOnlyCommitLogStorePaths": "{root}/commitlog,{root}/x"},
        "all directories of the commit log are among them: leave one to write to",
    ),
    "a_stopped_store": (being_written, {}, "{root}: is being written: stop the rocketstore writer, or the broker"),
    "own_places": (with_a_shared_file, {}, "{root}/checkpoint: is a hard link, so that a store that shares the file"),
    "known_sizes": (unchanged, {"mappedFileSizeCommitLog": "4096"}, "commit_log: 4096 by the given size, 65536 by"),
    "assumed_sizes": (unchanged, {"mappedFileSizeCommitLog": "4096"}, "commit_log: 4096 by the given size, 65536 by"),
    "a_usable_batch_size": (
        with_a_batch_topic, {"mapperFileSizeBatchConsumeQueue": "100"}, "mapper_file_size_batch_consume_queue=100"
    ),
}  # fmt: skip

# ---- calls ---------------------------------------------------------------------------------------------------


def config_of(conf):
    return StoreConfig.from_broker_conf(conf)


def called(function, **options):
    return lambda root, conf: function(root, config=config_of(conf), **options)


def command(*words, after=(), has_conf=True):
    def call(root, conf):
        pytest.importorskip("click", reason="needs click, from the extra 'cli'")
        from support.cli import run

        conf_options = ["--broker-conf", conf] if has_conf else []
        result = run(*words, *conf_options, root, *after)
        assert result.exit_code
        raise ValueError(" ".join(result.stderr.split()))

    return call


def imported(root, conf):
    source = root.with_name("source.jsonl")
    source.write_text('{"topic":"T","body":"x"}\n')
    command("import", "--broker-conf", conf, source, has_conf=False)(root, conf)


def spark_read(kind, **options):
    def call(root, conf):
        from support.spark_reads import data_source

        source = data_source(root, **options)
        if kind == "stream":
            source.streamReader(source.schema()).initialOffset()
        else:
            source.reader(source.schema()).partitions()

    return call


def spark_query(root, conf):
    from rocketstore.spark import query_messages

    query_messages(None, root, None, topic="T", key="key")


def spark_lookup(root, conf):
    from rocketstore.spark import select_phy_offset

    select_phy_offset(root, "T", "key")


def spark_sink(root, conf):
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    from rocketstore.spark.source.sink import writer_of

    lines = dict(line.split("=") for line in conf.read_text().split())
    known = {camel_case(name) for name in vars(StoreConfig())}
    options = {name: value for name, value in lines.items() if name in known}
    schema = StructType([StructField("topic", StringType()), StructField("body", BinaryType())])
    writer_of(schema, {"path": str(root), **options}, overwrite=False)


def spark_build(name):
    def call(root, conf):
        from rocketstore import spark

        getattr(spark, name)(None, root, root.with_name("built"), config=config_of(conf))

    return call


CALLS = {
    "open r": [called(rocketstore.open)],
    "open r+": [called(rocketstore.open, mode="r+")],
    "open a": [called(rocketstore.open, mode="a")],
    "scan_polars": [called(rocketstore.scan_polars)],
    "recover": [called(rocketstore.recover), called(rocketstore.recover, policy="broker"), command("recover")],
    "recover dry run": [called(rocketstore.recover, dry_run=True), command("recover", "--dry-run")],
    "rebuild": [called(rocketstore.rebuild), command("rebuild")],
    "rebuild into a new directory": [
        lambda root, conf: rocketstore.rebuild(root, out=root.with_name("out"), config=config_of(conf))
    ],
    "patch": [called(rocketstore.patch), called(rocketstore.patch, dry_run=True), command("patch")],
    "salvage": [called(rocketstore.salvage, dry_run=True), command("salvage", "--dry-run")],
    "verify": [called(rocketstore.verify), command("verify")],
    "convert": [
        lambda root, conf: rocketstore.convert(root, root.with_name("new"), config=config_of(conf)),
        lambda root, conf: command("convert", after=(root.with_name("new"),))(root, conf),
    ],
    "split": [
        lambda root, conf: rocketstore.split(root, root.with_name("new"), config=config_of(conf)),
        lambda root, conf: command("split", after=(root.with_name("new"),))(root, conf),
    ],
    "copy": [
        called(rocketstore.copy, new="/nowhere/else/new"),
        lambda root, conf: command("copy", after=(root.with_name("new"),))(root, conf),
    ],
    "diff": [
        lambda root, conf: rocketstore.diff(root, root, config=config_of(conf)),
        lambda root, conf: command("diff", after=(root,))(root, conf),
    ],
    "bundle": [
        lambda root, conf: rocketstore.bundle(root, root.with_name("bundle.zip"), config=config_of(conf)),
        lambda root, conf: command("bundle", "-o", root.with_name("bundle.zip"))(root, conf),
    ],
    "BrokerConfig.open": [called(rocketstore.BrokerConfig.open)],
    "cat": [command("cat")],
    "config check": [command("config", "check", has_conf=False)],
    "config repair": [command("config", "repair", has_conf=False)],
    "config repair dry run": [command("config", "repair", "--dry-run", has_conf=False)],
    "count": [command("count", "--by", "topic")],
    "dlq": [command("dlq")],
    "du": [command("du")],
    "expire": [command("expire")],
    "sql": [command("sql", after=("SELECT 1",))],
    "export": [command("export", after=("-",))],
    "get": [command("get", after=("T", 0, 0))],
    "hexdump": [command("hexdump", after=("log:0",))],
    "import": [imported],
    "info": [command("info")],
    "lag": [command("lag")],
    "ls": [command("ls")],
    "metrics": [command("metrics")],
    "offset": [command("offset", after=("--time", "0"))],
    "pending": [command("pending")],
    "query": [command("query", "--topic", "T", "--key", "key")],
    "report": [command("report")],
    "trace": [command("trace", "--key", "key")],
    "spark read": [spark_read("read")],
    "spark stream": [spark_read("stream")],
    "spark table": [spark_read("read", table="index")],
    "spark query_messages": [spark_query],
    "spark select_phy_offset": [spark_lookup],
    "spark sink": [spark_sink],
    "spark build_index": [spark_build("build_index")],
    "spark rebuild_consume_queue": [spark_build("rebuild_consume_queue")],
}
CASES = [
    pytest.param(entry, number, requirement.__name__, id=f"{entry}-{number}-{requirement.__name__}")
    for entry, row in ENTRIES.items()
    for number in range(len(CALLS[entry]))
    for requirement in (*row.before, *row.under_lock)
    if requirement.__name__ != "a_local_place"
]


@pytest.mark.parametrize(("entry", "number", "requirement"), CASES)
def test_an_entry_is_refused_for_what_it_requires(made, entry, number, requirement, tmp_path, monkeypatch):
    if entry.startswith("spark"):
        pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")
    if entry == "scan_polars":
        pytest.importorskip("polars", reason="needs polars, from the extra 'polars'")
    make_lacking, lines, words = LACKING[requirement]
    root, conf = shutil.copytree(made, tmp_path / "store"), tmp_path / "broker.conf"
    lines = {name: value.format(root=root) for name, value in lines.items()}
    conf.write_text(TEXT + "".join(f"{name}={value}\n" for name, value in lines.items()))
    make_lacking(root, monkeypatch)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises((OSError, ValueError, rocketstore.StoreError)) as caught:
        CALLS[entry][number](root, conf)
    assert words.format(root=root) in str(caught.value)
    after = {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != "lock"}
    assert after == {path: data for path, data in before.items() if path.name != "lock"}


@pytest.mark.parametrize("entry", [name for name, row in ENTRIES.items() if requirements.a_local_place in row.before])
def test_an_entry_of_local_stores_refuses_a_remote_one(entry):
    pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")
    with pytest.raises(OSError, match="is remote: a local path is needed"):
        requirements.begin_entry(entry, "memory://store")


def test_all_requirements_are_in_the_table_and_have_a_case():
    used = {requirement.__name__ for row in ENTRIES.values() for requirement in (*row.before, *row.under_lock)}
    assert used == {*LACKING, "a_local_place"}
    assert {*CALLS} == {*ENTRIES}


# ---- every entry has a row -----------------------------------------------------------------------------------

# The rows of each public function that takes a store's path.
FUNCTIONS = {
    "rocketstore.open": ("open r", "open r+", "open a"),
    "rocketstore.MessageStore.open": ("open r", "open r+", "open a"),
    "rocketstore.BrokerConfig.open": ("BrokerConfig.open",),
    "rocketstore.copy": ("copy",),
    "rocketstore.convert": ("convert",),
    "rocketstore.split": ("split",),
    "rocketstore.diff": ("diff",),
    "rocketstore.bundle": ("bundle",),
    "rocketstore.patch": ("patch",),
    "rocketstore.recover": ("recover", "recover dry run"),
    "rocketstore.rebuild": ("rebuild", "rebuild into a new directory"),
    "rocketstore.salvage": ("salvage",),
    "rocketstore.scan_polars": ("scan_polars",),
    "rocketstore.verify": ("verify",),
    "rocketstore.spark.build_index": ("spark build_index",),
    "rocketstore.spark.rebuild_consume_queue": ("spark rebuild_consume_queue",),
    "rocketstore.spark.read": ("spark read",),
    "rocketstore.spark.query_messages": ("spark query_messages",),
    "rocketstore.spark.select_phy_offset": ("spark select_phy_offset",),
}
# Functions that take the path of a part: a log, a queue, an index, or one file.
OF_PARTS = {
    "IndexFile.create",
    "IndexFile.open",
    "MappedFile.open",
    "StoreCheckpoint.open",
    "StoreConfig.from_broker_conf",
}
NAMES = {"a", "path", "root", "store", "store_path_root_dir"}  # of parameters


def functions_of(module):
    """Yield name and function of each public function, and of each class method of a public class."""
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            for method, _ in inspect.getmembers(value, inspect.ismethod):
                if not method.startswith("_"):
                    yield f"{name}.{method}", getattr(value, method)


def takes_a_path(function):
    parameters = inspect.signature(function).parameters.values()
    return any(each.name in NAMES and "Path" in str(each.annotation) for each in parameters)


def test_each_public_function_that_takes_a_path_has_a_row():
    modules = [rocketstore]
    if "pyspark" in str(pytest.importorskip("pyspark", reason="needs pyspark, from the extra 'spark'")):
        from rocketstore import spark

        modules.append(spark)
    found = {
        f"{module.__name__}.{name}"
        for module in modules
        for name, function in functions_of(module)
        if takes_a_path(function) and name not in OF_PARTS and not name.startswith("MessageStore.of_")
    }
    assert found == {*FUNCTIONS}
    assert {row for rows in FUNCTIONS.values() for row in rows} <= {*ENTRIES}


def commands_of(group, prefix=()):
    import click

    for name in group.list_commands(click.Context(group)):
        each = group.get_command(click.Context(group), name)
        if isinstance(each, click.Group):
            yield from commands_of(each, (*prefix, name))
        else:
            yield " ".join((*prefix, name)), each


def test_each_command_that_takes_a_store_has_a_row():
    click = pytest.importorskip("click", reason="needs click, from the extra 'cli'")
    from rocketstore.cli.group import rocketstore as group

    found = {
        name
        for name, each in commands_of(group)
        if any(isinstance(part, click.Argument) and part.name in NAMES for part in each.params)
    }
    assert found
    assert found <= {*ENTRIES}
