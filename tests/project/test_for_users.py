"""What users see first: help, constructors, and hints about missing packages and unclosed stores."""

import gc
import inspect
import os
import pydoc
import re
import shutil
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
from support.repetitions import only_some_quick

import rocketstore
from rocketstore import Message, StoreConfig

MADE_FOR_USERS = [
    "MessageStore",
    "Scan",
    "MessageBatch",
    "CommitLog",
    "ConsumeQueue",
    "BatchConsumeQueue",
    "Topic",
    "ConsumeQueueExt",
    "IndexService",
    "IndexFile",
    "GetMessageResult",
    "QueryMessageResult",
    "QueryMessagesResult",
    "BrokerConfig",
]


def help_of(thing):
    return pydoc.plain(pydoc.render_doc(thing))


def test_help_begins_with_five_names():
    text = help_of(rocketstore)
    description = text[text.index("DESCRIPTION") :][:1200]
    names = ["open", "MessageStore", "Message", "MessageBatch", "StoreConfig"]
    assert re.findall(r"\* ``(\w+)``", description) == names


@pytest.mark.parametrize("name", MADE_FOR_USERS)
def test_a_constructor_that_no_user_calls_shows_no_parameters(name):
    cls = getattr(rocketstore, name)
    assert str(inspect.signature(cls)) == "()"
    text = help_of(cls)
    shown = re.findall(r"__(?:init|new)__\(([^)]*)\)", text)
    assert all(parameters in ("self", "self, /", "*args, **kwargs") for parameters in shown), shown


@pytest.mark.parametrize("name", MADE_FOR_USERS)
def test_help_of_a_constructor_that_no_user_calls_names_the_call_for_users(name):
    cls = getattr(rocketstore, name)
    calls = {"MessageStore": "rocketstore.open(path)", "BatchConsumeQueue": "ConsumeQueue.open(path)"}
    call = calls.get(name, f"{name}.open(path)" if hasattr(cls, "open") else "store")
    makers = [getattr(kind, maker) for kind in cls.__mro__ for maker in ("__init__", "__new__") if maker in vars(kind)]
    docs = [maker.__doc__ for maker in makers]
    (doc,) = [doc for doc in docs if doc and doc.startswith("Not for users")]
    assert call in doc
    assert doc.endswith(" makes the object.")


def test_a_store_that_was_written_and_not_closed_gives_a_warning(tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with rocketstore.open(tmp_path / "closed", "a", config=StoreConfig.small()):
            pass
        store = rocketstore.open(tmp_path / "open", "a", config=StoreConfig.small())
        store.put_message(Message("A", "text"))
        reader = rocketstore.open(tmp_path / "closed")
        del reader
        gc.collect()
        assert [w for w in caught if w.category is ResourceWarning] == []
        writer = store._writer
        del store
        gc.collect()
        (warning,) = [w for w in caught if w.category is ResourceWarning]
    assert f"{tmp_path / 'open'}: the store was opened to write and is not closed" in str(warning.message)
    writer.close()


# ---- missing packages --------------------------------------------------------------------------------------

OPEN = "import rocketstore; store = rocketstore.open({root!r}); "
HINTS = [  # the missing module, a program, the extra that the message names
    ("pyarrow", OPEN + "store.scan().to_arrow()", "arrow"),
    ("pyarrow", OPEN + "store.scan().head().to_arrow()", "arrow"),
    ("pyarrow", OPEN + "store.scan().to_pandas()", "pandas"),
    ("pandas", OPEN + "store.scan().to_pandas()", "pandas"),
    ("pandas", OPEN + "store.query_message('A', 'k').to_pandas()", "pandas"),
    ("polars", OPEN + "store.scan().to_polars()", "polars"),
    ("polars", OPEN + "store.scan().head().to_polars()", "polars"),
    ("polars", OPEN + "store.consumer_lag().to_polars()", "polars"),
    ("pyarrow", "import rocketstore.arrow; rocketstore.arrow.message_schema()", "arrow"),
    ("lz4", "import rocketstore; rocketstore.Message('A', b'', compress='lz4')", "codecs"),
    ("zstandard", "import rocketstore; rocketstore.Message('A', b'', compress='zstd')", "codecs"),
    ("fsspec", "import rocketstore; rocketstore.open('s3://bucket/store')", "remote"),
    ("pyspark", "import rocketstore.spark", "spark"),
    ("click", "import sys; sys.argv = ['rocketstore', 'info', '.']; from rocketstore.cli import main; main()", "cli"),
    ("rich", "import sys; sys.argv = ['rocketstore', 'ls', {root!r}, '--format', 'table']; "
             "from rocketstore.cli import main; main()", "cli"),
]  # fmt: skip
MET_BEFORE = {("pyarrow", "pandas"): ["pandas"], ("rich", "cli"): ["click"]}  # packages whose lack is noticed first


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("store")
    with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
        store.put_message(Message("A", "text", keys="k"))
    return root


@pytest.mark.parametrize(
    ("module", "program", "extra"), only_some_quick(HINTS, *HINTS[::3]), ids=lambda value: str(value)[:40]
)
def test_a_missing_package_names_the_extra_that_brings_it(root, module, program, extra):
    for other in MET_BEFORE.get((module, extra), ()):
        pytest.importorskip(other, reason=f"needs {other}: else the message names it and not {module}")
    code = f"import sys; sys.modules[{module!r}] = None; {program.format(root=str(root))}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120,
                         env=os.environ | {"PYTHONWARNINGS": "ignore"})  # fmt: skip
    assert run.returncode != 0
    last = run.stderr.strip().splitlines()[-1]
    assert f'pip install "rocketstore[{extra}]"' in last
    assert module in last


def test_the_extra_of_a_hint_has_the_package():
    project = Path(__file__).parent.parent.parent / "pyproject.toml"
    extras = tomllib.loads(project.read_text())["project"]["optional-dependencies"]
    for module, _, extra in HINTS:
        assert any(re.match(rf"{module}\b", package) for package in extras[extra]), (module, extra)
    assert {"pandas", "polars", "duckdb"} <= extras.keys()
    for extra in ("pandas", "polars", "duckdb"):
        assert any(re.match(rf"{extra}\b", package) for package in extras[extra])
        assert re.search(rf"\b{extra}\b", extras["all"][0])


def test_a_source_tree_that_is_imported_instead_of_the_installed_package_says_so(tmp_path):
    package = Path(rocketstore.__file__).parent
    shutil.copytree(package, tmp_path / "rocketstore", ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__"))
    command = [sys.executable, "-c", "import rocketstore; rocketstore.open('x')"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True, check=False)
    assert f"{tmp_path}/rocketstore/kernels: nothing is compiled here" in run.stderr
    assert "start Python in another directory" in run.stderr
