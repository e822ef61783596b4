"""``rocketstore bundle``: one archive for a bug report."""

from support.cli import assert_one_line, golden, rows, run


def test_each_row_is_a_file_of_the_archive(tmp_path):
    result = run("bundle", golden("basic-5.5.0"), "-o", tmp_path / "b.tar.gz")
    assert "verify.json" in [row["name"] for row in rows(result)]
    assert result.stderr.startswith(f"{tmp_path / 'b.tar.gz'}: ")
    assert_one_line(run("bundle", golden("basic-5.5.0"), "-o", tmp_path / "b.tar.gz"), "--force")
    assert run("bundle", golden("basic-5.5.0"), "-o", tmp_path / "b.tar.gz", "--force").exit_code == 0


def test_another_ending_is_wrong_usage(tmp_path):
    result = run("bundle", golden("basic-5.5.0"), "-o", tmp_path / "b.txt")
    assert result.exit_code == 2
    assert ".tar.gz" in result.stderr
