"""``rocketstore export``: whole files or none, in four formats, going on where it was interrupted."""

import csv
import gzip
import io
import json
import os
import re
import resource
import shutil
import signal
import time
from pathlib import Path

import pytest
from reference.commit_log import write_file
from reference.message_store import make_store
from reference.record import build_record
from support import stores
from support.cli import assert_one_line, golden, on_terminal, rows, run, start

import rocketstore
from rocketstore.cli.formats import csv_line
from rocketstore.kernels.message_columns import message_fields

pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
RICH = "rich-5.5.0"


def export(name, target, *options):
    result = run("export", golden(name), target, *options)
    assert (result.exit_code, result.stdout) == (0, "")
    assert re.fullmatch(rf"{target}: [0-9,]+ messages\n", result.stderr)
    return target


def read(path, form=None):
    """The table in a Parquet or Arrow file."""
    import pyarrow.parquet

    if (form or path.suffix[1:]) == "parquet":
        return pyarrow.parquet.read_table(path)
    with pa.ipc.open_file(path) as reader:
        return reader.read_all()


def files_in(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("name", [RICH, "cut-5.3.3", "batch-5.5.0"])
def test_a_table_is_what_a_scan_gives(form, name, tmp_path):
    with rocketstore.open(golden(name)) as store:
        for containers, options in ((False, ()), (True, ("--containers",))):
            scan = store.scan(columns=[*message_fields(), "body_error"], containers=containers)
            assert read(export(name, tmp_path / f"out.{form}", "--force", *options)).equals(scan.to_arrow())
    assert files_in(tmp_path) == [f"out.{form}"]


def test_json_and_csv_are_what_cat_shows(tmp_path):
    assert export(RICH, tmp_path / "out.jsonl").read_text("utf-8") == run("cat", golden(RICH)).stdout
    path = export(RICH, tmp_path / "out.csv")
    with path.open(encoding="utf-8", newline="") as file:
        assert file.read() == run("cat", golden(RICH), "--format", "csv").stdout


def test_a_format_is_chosen_by_option_whatever_the_name(tmp_path):
    assert read(export(RICH, tmp_path / "out.data", "--format", "arrow"), "arrow").num_rows == 288
    result = run("export", golden(RICH), tmp_path / "out.dat")
    assert result.exit_code == 2
    assert "give --format" in result.stderr


def test_conditions_choose_the_messages(tmp_path):
    messages = stores.dump(RICH)["message"]
    since = messages[100]["storeTimestamp"]
    target = export(RICH, tmp_path / "out.jsonl", "--topic", "TopicTest", "--since", since, "--end-offset", 400_000)
    found = [json.loads(line)["phyOffset"] for line in target.read_text("utf-8").splitlines()]
    assert found == [
        m["physicalOffset"]
        for m in messages
        if m["topic"] == "TopicTest" and m["storeTimestamp"] >= since and m["physicalOffset"] < 400_000
    ]
    assert found


@pytest.mark.parametrize("form", ["parquet", "arrow", "jsonl", "csv"])
def test_nothing_that_matches_makes_a_file_without_rows(form, tmp_path):
    target, none = tmp_path / f"out.{form}", tmp_path / f"none.{form}"
    assert_one_line(run("export", golden(RICH), target, "--key", "nope"), golden(RICH), "no message was found")
    if form in ("parquet", "arrow"):
        assert read(target).num_rows == 0
    else:
        assert len(target.read_text().splitlines()) == (form == "csv")
    assert_one_line(run("export", golden(RICH), none, "--begin-offset", 10**12), "no message was found")
    assert none.exists()
    unknown = tmp_path / f"unknown.{form}"
    assert_one_line(run("export", golden(RICH), unknown, "--topic", "nope"), "there is no queue of topic 'nope'")
    assert unknown.read_bytes() == target.read_bytes()


@pytest.mark.parametrize("parts", [0, 1])
def test_a_topic_that_is_not_there_is_named_also_after_a_break(parts, interrupted, tmp_path):
    topics = ["--topic", "nope", "--topic", "TopicTest"]
    result = run("export", golden(RICH), interrupted("jsonl", parts, *topics), "--resume", *topics)
    assert_one_line(result, golden(RICH), "there is no queue of topic 'nope'")
    whole = export(RICH, tmp_path / "whole.jsonl", "--topic", "TopicTest")
    assert (tmp_path / "out.jsonl").read_bytes() == whole.read_bytes()


def test_written_rows_are_counted(tmp_path):
    assert run("export", golden(RICH), tmp_path / "a.csv").stderr == f"{tmp_path / 'a.csv'}: 288 messages\n"


@pytest.mark.parametrize("options", [["--format", "json"], ["--format", "csv"], ["--format", "csv", "--raw-body"]])
def test_json_and_csv_can_go_to_standard_output(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("export", golden(RICH), "-", *options)
    assert (result.exit_code, result.stderr) == (0, "-: 288 messages\n")
    assert files_in(tmp_path) == []
    run("export", golden(RICH), "out", *options)
    assert result.stdout.encode() == (tmp_path / "out").read_bytes()


@pytest.mark.parametrize("options", [["--format", "arrow"], ["--format", "parquet"], ["--format", "csv", "--resume"]])
def test_tables_and_resumed_exports_do_not_go_to_standard_output(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("export", golden(RICH), "-", *options).exit_code == 2
    assert files_in(tmp_path) == []


def test_the_names_of_a_finished_export_reach_the_disk(tmp_path, monkeypatch):
    """Its file is synced before it gets its name, and its directory afterwards, before TARGET.partial is removed."""
    from rocketstore.cli.transfer import export as module

    calls = []
    sync, replace, rmtree = module.sync_path, Path.replace, module.shutil.rmtree
    monkeypatch.setattr(module, "sync_path", lambda path: calls.append(("sync", path.name)) or sync(path))
    monkeypatch.setattr(Path, "replace", lambda old, new: calls.append(("rename", new.name)) or replace(old, new))
    monkeypatch.setattr(module.shutil, "rmtree", lambda path, **_: calls.append(("remove", path.name)) or rmtree(path))
    export(RICH, tmp_path / "out.jsonl")
    named = calls.index(("rename", "out.jsonl"))
    assert calls[named - 1 : named + 3] == [
        ("sync", "rows"),
        ("rename", "out.jsonl"),
        ("sync", tmp_path.name),
        ("remove", "out.jsonl.partial"),
    ]


# ---- whole or not at all -----------------------------------------------------------------------------------


def test_a_target_that_exists_is_left_alone_unless_forced(tmp_path):
    target = tmp_path / "out.jsonl"
    target.write_text("mine")
    assert_one_line(run("export", golden(RICH), target), target, "--force")
    assert target.read_text() == "mine"
    assert len(export(RICH, target, "--force").read_text("utf-8").splitlines()) == 288
    assert_one_line(run("export", golden(RICH), tmp_path, "--format", "csv", "--force"), tmp_path, "exists")


@pytest.mark.parametrize("options", [[], ["--force"], ["--resume"]])
def test_a_pipe_or_device_is_never_replaced(options, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "fifo")
    for name in ("fifo", "link"):
        result = run("export", golden(RICH), tmp_path / name, "--format", "csv", *options)
        assert_one_line(result, tmp_path / name, "is not a regular file")
    assert files_in(tmp_path) == ["fifo", "link"]
    assert (tmp_path / "fifo").is_fifo()


@pytest.fixture
def interrupted(monkeypatch, tmp_path):
    """Return a function that begins an export, and interrupts it like Ctrl-C. It returns the target."""
    from rocketstore.cli.transfer import export as module
    from rocketstore.cli.transfer import table_file

    def export_some(form, parts, *options):
        """Interrupt an export when the part after some parts is on the disk, but not in the state."""
        save, publish, count = module.save_state, module.publish, 0

        def save_some(work, state):
            nonlocal count
            if count > parts:
                raise KeyboardInterrupt
            count += 1
            save(work, state)

        def publish_state(temporary, path):
            if path.suffix != ".json":
                raise KeyboardInterrupt
            publish(temporary, path)

        with monkeypatch.context() as patch:
            patch.setattr(module, "save_state", save_some)
            patch.setattr(module, "publish", publish_state)
            result = run("export", golden(RICH), tmp_path / f"out.{form}", *options)
        assert (result.exit_code, result.stdout) == (130, "")
        assert "--resume" in result.stderr
        assert not (tmp_path / f"out.{form}").exists()
        return tmp_path / f"out.{form}"

    monkeypatch.setattr(table_file, "GROUP_ROWS", 20)  # each part has row groups
    monkeypatch.setattr(module, "PART_BYTES", 1)  # also of text
    return export_some


def state_of(target):
    return json.loads((target.with_name(f"{target.name}.partial") / "export.json").read_text())


@pytest.mark.parametrize("parts", [0, 1, 2, 99])
@pytest.mark.parametrize("form", ["parquet", "arrow", "jsonl", "csv"])
def test_an_interrupted_export_continues_and_gives_the_same(form, parts, interrupted, tmp_path):
    target = interrupted(form, parts)
    assert len(state_of(target)["parts"]) == parts or (parts == 99 and len(state_of(target)["parts"]) > 2)
    with (tmp_path / f"out.{form}.partial" / "rows").open("ab") as file:
        file.write(b"bytes after the last part")
    export(RICH, target, "--resume")
    whole = export(RICH, tmp_path / f"whole.{form}")
    assert target.read_bytes() == whole.read_bytes()
    if form in ("parquet", "arrow"):
        with rocketstore.open(golden(RICH)) as store:
            scan = store.scan(columns=[*message_fields(), "body_error"])
            assert read(target).num_rows == scan.count()
    assert files_in(tmp_path) == [f"out.{form}", f"whole.{form}"]


@pytest.mark.parametrize("form", ["parquet", "arrow", "jsonl", "csv"])
@pytest.mark.parametrize("parts", [None, 2])
def test_messages_are_written_once(form, parts, interrupted, tmp_path, monkeypatch):
    """An export needs the space of the file, also for a moment, and writes its bytes once, also after a break."""
    from rocketstore.cli.transfer import export as module

    space, publish = [], module.publish

    def measure(temporary, path):
        publish(temporary, path)
        space.append(sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()))

    def written():
        return int(re.search(r"wchar: (\d+)", Path("/proc/self/io").read_text())[1])

    target = tmp_path / f"out.{form}" if parts is None else interrupted(form, parts)
    before = 0 if parts is None else state_of(target)["parts"][-1]["size"]
    monkeypatch.setattr(module, "publish", measure)
    begin = written()
    export(RICH, target, *([] if parts is None else ["--resume"]))
    size = target.stat().st_size
    states = 20_000  # bytes of all states, which do not grow with the messages
    assert written() - begin < 1.2 * (size - before) + states
    assert max(space) < 1.2 * size + states


@pytest.mark.parametrize("form", ["parquet", "arrow", "jsonl", "csv"])
def test_complete_parts_are_not_written_again(form, interrupted, tmp_path):
    target = interrupted(form, 2)
    rows = tmp_path / f"out.{form}.partial" / "rows"
    kept = rows.stat().st_ino
    export(RICH, target, "--resume")
    assert target.stat().st_ino == kept


@pytest.mark.parametrize("form", ["parquet", "arrow", "jsonl", "csv"])
def test_rows_that_are_lost_are_noticed(form, interrupted, tmp_path):
    target = interrupted(form, 2)
    rows = tmp_path / f"out.{form}.partial" / "rows"
    os.truncate(rows, state_of(target)["parts"][-1]["size"] - 1)
    assert_one_line(run("export", golden(RICH), target, "--resume"), rows, "fewer than", "--force starts again")
    assert not target.exists()
    export(RICH, target, "--force")


def test_other_bytes_of_earlier_arrow_batches_are_refused(interrupted, tmp_path):
    target = interrupted("arrow", 2)
    rows = tmp_path / "out.arrow.partial" / "rows"
    data = bytearray(rows.read_bytes())
    data[state_of(target)["parts"][0]["size"] - 1] ^= 1  # padding, which pyarrow writes as zero
    rows.write_bytes(data)
    assert_one_line(run("export", golden(RICH), target, "--resume"), rows, "other bytes", "--force starts again")


def test_an_export_that_was_killed_after_it_got_its_name_is_complete(tmp_path, monkeypatch):
    from rocketstore.cli.transfer import export as module

    def killed(path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module.shutil, "rmtree", killed)
        assert run("export", golden(RICH), tmp_path / "out.csv").exit_code == 130
    assert files_in(tmp_path) == ["out.csv", "out.csv.partial"]
    result = run("export", golden(RICH), tmp_path / "out.csv", "--resume")
    assert (result.exit_code, result.stderr) == (
        0,
        f"{tmp_path / 'out.csv'}: is complete already: --resume adds no newer messages, --state FILE does\n",
    )
    assert files_in(tmp_path) == ["out.csv"]


def test_an_unfinished_export_is_not_begun_again_unasked(interrupted, tmp_path):
    target = interrupted("jsonl", 2)
    assert_one_line(run("export", golden(RICH), target), "out.jsonl.partial", "--resume", "--force")
    other = run("export", golden(RICH), target, "--resume", "--topic", "TopicTest")
    assert_one_line(other, "out.jsonl.partial", "other options")
    export(RICH, target, "--topic", "TopicTest", "--force")
    assert {json.loads(line)["topic"] for line in target.read_text("utf-8").splitlines()} == {"TopicTest"}
    assert files_in(tmp_path) == ["out.jsonl"]


def test_a_forced_export_that_was_interrupted_continues_too(interrupted, tmp_path):
    (tmp_path / "out.jsonl").write_text("mine")
    (tmp_path / "out.jsonl").rename(tmp_path / "old")
    target = interrupted("jsonl", 2, "--force")
    (tmp_path / "old").rename(target)
    assert run("export", golden(RICH), target, "--resume", "--force").exit_code == 2
    assert len(export(RICH, target, "--resume").read_text("utf-8").splitlines()) == 288


def test_a_target_made_meanwhile_is_left_alone(interrupted):
    target = interrupted("jsonl", 2)
    target.write_text("mine")
    assert_one_line(run("export", golden(RICH), target, "--resume"), target, "exists", "--force")
    assert target.read_text() == "mine"


def test_a_target_that_appears_during_the_export_is_left_alone(tmp_path, monkeypatch):
    from rocketstore.cli.transfer import export as module

    target, write_parts = tmp_path / "out.jsonl", module.write_parts

    def write_and_wait(*arguments):
        target.write_text("mine")
        return write_parts(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_parts", write_and_wait)
        assert_one_line(run("export", golden(RICH), target), target, "exists now", "--resume")
    assert target.read_text() == "mine"
    target.unlink()
    assert len(export(RICH, target, "--resume").read_text("utf-8").splitlines()) == 288


def test_a_target_in_a_missing_directory_names_the_directory(tmp_path):
    assert_one_line(run("export", golden(RICH), tmp_path / "none" / "out.csv"), tmp_path / "none", "make it")
    assert files_in(tmp_path) == []


def test_an_export_that_is_done_is_not_done_again_by_resume(tmp_path):
    target = export(RICH, tmp_path / "out.jsonl")
    target.write_text("kept")
    result = run("export", golden(RICH), target, "--resume")
    assert (result.exit_code, result.stderr) == (
        0,
        f"{target}: is complete already: --resume adds no newer messages, --state FILE does\n",
    )
    assert target.read_text() == "kept"


@pytest.mark.parametrize("state", [None, "", "{", "[]", "5", "{}", "\xff"])
def test_a_state_that_cannot_be_read_names_force(state, tmp_path):
    target, work = tmp_path / "out.csv", tmp_path / "out.csv.partial"
    work.mkdir()
    if state is not None:
        (work / "export.json").write_text(state, "latin-1")
    for options in ([], ["--resume"]):
        assert_one_line(run("export", golden(RICH), target, *options), work / "export.json", "--force")
    export(RICH, target, "--force")
    assert files_in(tmp_path) == ["out.csv"]


@pytest.mark.parametrize("form", ["parquet", "arrow", "jsonl", "csv"])
def test_a_file_that_cannot_grow_is_named_and_continued(form, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    target = tmp_path / f"out.{form}"
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        result = run("export", golden(RICH), target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert_one_line(result, f"{target}.partial", "File too large", "--resume")
    export(RICH, target, "--resume")


def test_a_directory_that_is_no_export_is_not_removed(tmp_path):
    (tmp_path / "out.csv.partial").mkdir()
    (tmp_path / "out.csv.partial" / "mine").touch()
    assert_one_line(run("export", golden(RICH), tmp_path / "out.csv", "--force"), "out.csv.partial")
    assert files_in(tmp_path / "out.csv.partial") == ["mine"]


def test_damaged_records_are_left_out_and_named_also_after_a_break(interrupted, tmp_path, monkeypatch):
    root = shutil.copytree(golden(RICH), tmp_path / "store")
    file = min((root / "commitlog").iterdir())
    data = bytearray(file.read_bytes())
    data[255:263] = bytes(8)
    file.write_bytes(data)
    (tmp_path / "out").mkdir()
    result = run("export", root, tmp_path / "out" / "a.jsonl")
    assert_one_line(result, file, "offsets 255 to 1541 are left out")
    assert len((tmp_path / "out" / "a.jsonl").read_text("utf-8").splitlines()) == 287
    monkeypatch.setitem(globals(), "golden", lambda name: root)
    for parts in (0, 2):
        target = interrupted("jsonl", parts, "--force")
        assert_one_line(run("export", root, target, "--resume"), file, "offsets 255 to 1541 are left out")
        target.unlink()


def test_messages_behind_damage_in_the_last_file_are_exported(tmp_path):
    records = [build_record(body=b"%d" % n, phy_offset=0) for n in range(3)]
    size = len(records[0])
    records = [build_record(body=b"%d" % n, phy_offset=n * size) for n in range(3)]
    write_file(tmp_path / "commitlog", 0, (records[0] + bytes(size) + records[2]).ljust(4096, b"\0"))
    result = run("export", tmp_path, tmp_path / "out.jsonl")
    assert_one_line(result, "magic", f"offsets {size} to {2 * size} are left out")
    bodies = [json.loads(line)["body"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert bodies == ["0", "2"]


def test_messages_that_are_put_meanwhile_are_not_exported(interrupted):
    target = interrupted("jsonl", 2, "--end-offset", 300_000)
    export(RICH, target, "--resume", "--end-offset", 300_000)
    last = json.loads(target.read_text("utf-8").splitlines()[-1])
    assert last["phyOffset"] < 300_000


def test_messages_that_expired_between_two_parts_are_named(interrupted, tmp_path, monkeypatch):
    root = shutil.copytree(golden(RICH), tmp_path / "store")
    monkeypatch.setitem(globals(), "golden", lambda name: root)
    target = interrupted("jsonl", 1)
    files = sorted((root / "commitlog").iterdir())
    for path in files[:2]:
        path.unlink()
    result = run("export", root, target, "--resume")
    assert_one_line(result, root / "commitlog", f"the log before {int(files[2].name)} was deleted")
    assert run("export", root, "-", "--format", "json", "--begin-offset", 0).exit_code == 0


def test_ctrl_c_in_a_process(tmp_path):
    records = [{"topic": "T", "body": bytes(range(256)) * 4} for _ in range(4000)]
    make_store(tmp_path / "store", records, file_size=1 << 20)
    target = tmp_path / "out.csv.gz"  # each file of the log is a part
    process = start("export", tmp_path / "store", target)
    work = tmp_path / "out.csv.gz.partial"
    until = time.monotonic() + 60
    while not ((work / "export.json").exists() and state_of(target)["parts"]) and time.monotonic() < until:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err == f"{work}: has the messages so far; run the same command with --resume to continue\n"
    assert not target.exists()
    assert run("export", tmp_path / "store", target, "--resume").exit_code == 0
    assert gzip.decompress(target.read_bytes()).decode() == run("cat", tmp_path / "store", "--format", "csv").stdout


@pytest.mark.parametrize(("form", "parts"), [("jsonl", 1), ("csv", 1), ("csv.gz", 4)])
def test_only_text_without_compression_joins_log_files_to_one_part(form, parts, monkeypatch, tmp_path):
    from rocketstore.cli.transfer import export as module

    saved = []
    monkeypatch.setattr(module, "save_state", lambda work, state: saved.append(len(state["parts"])))
    export(RICH, tmp_path / f"out.{form}")
    assert max(saved) == parts


def test_progress_is_shown_on_a_terminal_alone(tmp_path):
    status, text = on_terminal("export", golden(RICH), tmp_path / "out.jsonl")
    assert status == 0
    assert "export" in text
    assert len(rows(run("cat", golden(RICH)))) == len((tmp_path / "out.jsonl").read_text("utf-8").splitlines())


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1"]


@pytest.fixture
def formulas(tmp_path):
    """A store of messages whose topics, tags or bodies a spreadsheet would take for formulas."""
    root = tmp_path / "formulas"
    with rocketstore.open(root, "a", config=rocketstore.StoreConfig.small()) as store:
        for text in FORMULAS:
            store.put_message(rocketstore.Message("T", text.encode(), tags="=tag", properties={"=name": "=value"}))
    return root


def csv_rows(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_cells_that_a_spreadsheet_would_calculate_are_neutralised_on_request(formulas, tmp_path):
    target = tmp_path / "out.csv"
    assert run("export", formulas, target, "--format", "csv-safe").exit_code == 0
    with target.open(newline="") as file:
        exported = file.read()
    outputs = [
        exported,
        *(
            run(*command, "--format", "csv-safe").stdout
            for command in (
                ("export", formulas, "-"),
                ("cat", formulas),
                ("query", formulas, "--topic", "T", "--tag", "=tag"),
            )
        ),
    ]
    for output in outputs:
        found = csv_rows(output)
        assert sorted(row["body"] for row in found) == sorted(f"'{text}" for text in FORMULAS)
        assert {row["tags"] for row in found} == {"'=tag"}
    assert [row["body"] for row in csv_rows(run("cat", formulas, "--format", "csv").stdout)] == FORMULAS


def test_numbers_stay_numbers_in_neutralised_cells(formulas):
    assert (
        run("offset", formulas, "--topic", "T", "--time", "0", "--format", "csv-safe").stdout
        == run("offset", formulas, "--topic", "T", "--time", "0", "--format", "csv").stdout
    )
    assert csv_line([-1, "-1"], safe=True) == "-1,'-1\n"
