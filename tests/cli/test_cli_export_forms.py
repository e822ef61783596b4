"""``rocketstore export`` to compressed files, and to other file systems."""

import gzip
import json
import subprocess

import pytest
from support.cli import golden, rows, run

import rocketstore
from rocketstore import StoreConfig

RICH = "rich-5.5.0"


def decompressed(path):
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    zstandard = pytest.importorskip("zstandard", reason="needs zstandard, from the extra 'codecs'")
    with zstandard.ZstdDecompressor().stream_reader(path.open("rb"), read_across_frames=True) as reader:
        return reader.read()


@pytest.mark.parametrize("name", ["out.jsonl.gz", "out.csv.gz", "out.jsonl.zst"])
def test_the_name_of_the_target_says_its_compression(name, tmp_path):
    plain, target = tmp_path / name[: name.rindex(".")], tmp_path / name
    assert run("export", golden(RICH), plain).exit_code == run("export", golden(RICH), target).exit_code == 0
    assert decompressed(target) == plain.read_bytes()
    assert target.stat().st_size < plain.stat().st_size / 2


def test_a_compressed_file_of_many_parts_is_read_by_the_usual_programs(tmp_path):
    target = tmp_path / "out.jsonl.gz"
    run("export", golden(RICH), target)
    assert target.read_bytes().count(b"\x1f\x8b\x08") > 1  # a part for each file of the log
    text = subprocess.run(["gzip", "-dc", target], capture_output=True, check=True).stdout
    assert len(text.splitlines()) == len(rows(run("cat", golden(RICH))))


@pytest.mark.parametrize("name", ["out.jsonl.gz", "out.csv.gz", "out.jsonl.zst"])
def test_a_compressed_file_is_imported(name, tmp_path):
    pytest.importorskip("zstandard")
    run("export", golden(RICH), tmp_path / name)
    result = run("import", tmp_path / name, tmp_path / "new", "--small")
    assert result.exit_code == 0, result.stderr
    with rocketstore.open(tmp_path / "new") as new, rocketstore.open(golden(RICH)) as old:
        assert new.scan().head(9).keys.to_pylist() == old.scan().head(9).keys.to_pylist()
        assert new.count() == old.count()


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_damaged_compressed_file_is_an_error_of_one_line(suffix, tmp_path):
    pytest.importorskip("zstandard")
    path = tmp_path / f"out.jsonl.{suffix}"
    run("export", golden(RICH), path)
    path.write_bytes(path.read_bytes()[:-20])
    result = run("import", path, tmp_path / "new", "--small")
    assert result.exit_code == 1
    assert str(path) in result.stderr.splitlines()[-1]


def test_partial_exports_of_a_compressed_file_are_resumed(tmp_path, monkeypatch):
    from rocketstore.cli.transfer import export as module

    whole, target = tmp_path / "whole.jsonl.gz", tmp_path / "out.jsonl.gz"
    run("export", golden(RICH), whole)
    saved, states = module.save_state, iter(range(2))

    def killed(work, state):
        saved(work, state)
        if next(states, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "save_state", killed)
    assert run("export", golden(RICH), target).exit_code != 0
    monkeypatch.undo()
    assert run("export", golden(RICH), target, "--resume").exit_code == 0
    assert decompressed(target) == decompressed(whole)


@pytest.mark.parametrize("form", ["jsonl", "parquet", "csv.gz"])
def test_a_target_may_be_on_another_file_system(form, tmp_path):
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")
    memory = fsspec.filesystem("memory")
    target, local = f"memory://exports/out.{form}", tmp_path / f"out.{form}"
    run("export", golden(RICH), local)
    assert run("export", golden(RICH), target, "--force").exit_code == 0
    assert memory.cat_file(f"/exports/out.{form}") == local.read_bytes()
    again = run("export", golden(RICH), target)
    assert (again.exit_code, "exists: give another name" in again.stderr) == (1, True)
    assert memory.ls("/exports", detail=False).count(f"/exports/out.{form}.partial") == 0
    refused = run("export", golden(RICH), target, "--resume")
    assert (refused.exit_code, "--resume: TARGET must be a local path" in refused.stderr) == (2, True)


def test_an_empty_export_to_another_file_system_has_no_rows(tmp_path):
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")
    with rocketstore.open(tmp_path / "empty", "a", config=StoreConfig.small()):
        pass
    run("export", tmp_path / "empty", "memory://exports/empty.jsonl", "--force")
    assert fsspec.filesystem("memory").cat_file("/exports/empty.jsonl") == b""


def test_the_parts_of_an_incremental_export_are_compressed(tmp_path):
    command = ["export", golden(RICH), tmp_path / "lake", "--state", tmp_path / "state"]
    assert run(*command, "--format", "json", "--compression", "gzip").exit_code == 0
    (part,) = (tmp_path / "lake").iterdir()
    assert part.name == f"part-{0:020}.jsonl.gz"
    assert json.loads(decompressed(part).splitlines()[0])["queueOffset"] == 0


def test_standard_output_is_not_compressed():
    result = run("export", golden(RICH), "-", "--format", "json", "--compression", "gzip")
    assert (result.exit_code, "standard output is plain text" in " ".join(result.stderr.split())) == (2, True)
