"""The examples in docstrings of public names run, and each public name has one."""

import doctest
import inspect
import json
import shutil

import pytest

import rocketstore
from rocketstore import Message, StoreConfig

PACKAGES = {
    ".sql(": "duckdb",
    "export_new(": "pyarrow",
    "fsspec": "fsspec",
    "polars": "polars",
    "dataset()": "pyarrow",
}  # of extras, by a part of the code
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
METHODS = [
    "MessageBatch.of_arrow", "MessageBatch.to_polars", "MessageStore.dataset", "MessageStore.get_message",
    "MessageStore.put_message", "MessageStore.query_message",
]  # fmt: skip


def docstrings():
    """Yield the name and the docstring of each public name, and of each method with an example."""
    for name in rocketstore.__all__:
        value = getattr(rocketstore, name)
        yield name, value.__doc__ or ""
        for member in dir(value) if isinstance(value, type) else ():
            text = inspect.getdoc(inspect.getattr_static(value, member)) or ""
            if not member.startswith("_") and ">>>" in text:
                yield f"{name}.{member}", text


DOCSTRINGS = dict(docstrings())


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A directory with the store of all examples. An example writes only to other names."""
    path = tmp_path_factory.mktemp("examples")
    with rocketstore.open(path / "demo", "a", config=StoreConfig.small()) as store:
        tags = ["sent", "paid"]
        store.put_messages(
            [
                Message("Orders", f"order {n}".encode(), queue_id=0, keys=[f"order-{n}"], tags=tags[n % 2])
                for n in range(100)
            ]
        )
        store.put_message(Message("Users", b"Ann", queue_id=0, keys=["ann"]))
    offsets = {"offsetTable": {"Orders@billing": {"0": 40}}}
    (path / "demo" / "config" / "consumerOffset.json").write_text(json.dumps(offsets))
    return path


def test_each_public_name_and_the_most_used_methods_have_an_example():
    assert [name for name in [*rocketstore.__all__, *METHODS] if ">>>" not in DOCSTRINGS.get(name, "")] == []


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_the_example_of_a_docstring_shows_what_it_prints(name, directory, monkeypatch):
    text = DOCSTRINGS[name]
    code = "\n".join(line for line in text.splitlines() if ">>>" in line)
    for part, package in PACKAGES.items():
        if part in code:
            pytest.importorskip(package, reason=f"the example needs {package}")
    monkeypatch.chdir(directory)
    names = {public: getattr(rocketstore, public) for public in rocketstore.__all__ if public != "open"}
    example = doctest.DocTestParser().get_doctest(text, names | {"rocketstore": rocketstore}, name, None, None)
    printed = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=printed.append)
    for path in directory.iterdir():
        if path.name != "demo":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert result.failed == 0, "".join(printed)
    assert result.attempted
