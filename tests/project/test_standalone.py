"""The self-contained command runs where there is a Python and libc, and neither a compiler, packages nor a network."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import rocketstore
from rocketstore import Message, StoreConfig

TREE = Path(__file__).parent.parent.parent
NEEDED = "numpy", "click", "rich", "markdown-it-py", "mdurl", "pygments", "prompt_toolkit", "wcwidth"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.normal_build,
    pytest.mark.skipif(not (TREE / ".ci").exists(), reason="tested away from the source tree"),
    pytest.mark.skipif(sys.platform != "linux", reason="the self-contained command is for Linux"),
]


@pytest.fixture(scope="module")
def builder():
    """The module that makes the self-contained command."""
    spec = importlib.util.spec_from_file_location("standalone", TREE / ".ci" / "standalone.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def command(builder, tmp_path_factory):
    """The self-contained command: that of make wheel, or one of the packages of this environment."""
    if "ROCKETSTORE_STANDALONE" in os.environ:
        return Path(os.environ["ROCKETSTORE_STANDALONE"])
    directory = tmp_path_factory.mktemp("standalone")
    packages = directory / "packages"
    for name in NEEDED:
        copy_package(name, packages)
    leave_out = shutil.ignore_patterns("*.c", "*.pyx", "__pycache__")
    shutil.copytree(Path(rocketstore.__file__).parent, packages / "rocketstore", ignore=leave_out)
    builder.make_archive(packages, directory / "rocketstore.pyz")
    return directory / "rocketstore.pyz"


def copy_package(name, directory):
    """Copy the files of an installed package to a directory, those of programs excepted."""
    pytest.importorskip(name.replace("-py", "").replace("-", "_"), reason=f"needs {name}, from the extra 'cli'")
    for file in importlib.metadata.files(name):
        if file.parts[0] != ".." and file.suffix != ".pyc":
            target = directory / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.locate(), target)


def libraries_of(path):
    """The paths of the shared libraries that a program or a library loads."""
    answer = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(/\S+) \(0x", answer))


def copy_program(path, root):
    target = root / str(path).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(path).resolve(), target)


@pytest.fixture(scope="module")
def root(tmp_path_factory, command):
    """A root directory with this Python, the libraries that Python itself loads, the command and a store."""
    root = tmp_path_factory.mktemp("root")
    python = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    modules = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
    leave_out = shutil.ignore_patterns("test", "site-packages", "dist-packages", "__pycache__", "idlelib", "config-*")
    shutil.copytree(modules, root / str(modules).lstrip("/"), ignore=leave_out)
    copy_program(python, root)
    for path in {python, *(modules / "lib-dynload").glob("*.so")}:
        for library in libraries_of(path):
            copy_program(library, root)
    (libc,) = (library for library in libraries_of(python) if Path(library).name.startswith("libc.so"))
    for path in Path(libc).parent.glob("lib*.so.*"):
        if path.name.partition(".")[0] in ("libm", "libpthread", "libdl", "librt", "libutil"):  # the rest of libc
            copy_program(path, root)
    for name in ("tmp", "dev", "root"):
        (root / name).mkdir(exist_ok=True)
    (root / "dev" / "null").touch()
    shutil.copy(command, root / "rocketstore.pyz")
    with rocketstore.open(root / "store", "a", config=StoreConfig.small()) as store:
        store.put_message(Message("Orders", b"first", keys=["order-7"]))
    return root


@pytest.fixture(scope="module")
def run(root):
    """Run the command in the root directory, without a network."""
    python = f"{sys.base_prefix}/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    inside = ["unshare", "--map-root-user", "--net", "--root", root, "--wd", "/", python]
    tried = subprocess.run([*inside, "-c", "import zipfile"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"this user may not change the root directory: {tried.stderr}")

    def run(*arguments, status=0, **environment):
        answer = subprocess.run(
            [*inside, "/rocketstore.pyz", *arguments],
            env={"HOME": "/root", "PATH": "/usr/bin:/bin", **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == status, answer.stderr
        return answer.stdout + (answer.stderr if status else "")

    return run


def test_it_runs_in_a_root_that_has_libc_and_python_only(run, root):
    names = {path.name for path in root.rglob("*")}
    assert not {"gcc", "cc", "pip", "numpy", "sh"} & names
    assert not [name for name in names if name.startswith(("libstdc++", "libgcc_s"))]
    assert rocketstore.__version__ in run("--version")
    assert '"messages": 1' in run("info", "/store")
    assert "order-7" in run("query", "/store", "--key", "order-7")
    assert "first" in run("cat", "/store", "--format", "table")
    run("verify", "/store")
    run("rebuild", "/store")
    assert len(list((root / "root" / ".cache" / "rocketstore").iterdir())) == 1


def test_a_home_that_cannot_be_written_leaves_no_files(run, root):
    (root / "file").touch()
    assert '"messages": 1' in run("info", "/store", ROCKETSTORE_UNPACKED="/file/cache")
    assert list((root / "tmp").iterdir()) == []


def test_a_killed_unpacking_is_not_continued(run, root):
    cache = root / "cache" / "unpacking-1"
    cache.mkdir(parents=True)
    assert '"messages": 1' in run("info", "/store", ROCKETSTORE_UNPACKED="/cache")
    assert '"messages": 1' in run("info", "/store", ROCKETSTORE_UNPACKED="/cache")
    assert list(cache.iterdir()) == []


def test_another_python_is_named(run, root, command):
    with zipfile.ZipFile(command) as archive:
        main, build = archive.read("__main__.py"), archive.read("standalone_build.py")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert suffix.encode() in build
    with zipfile.ZipFile(root / "other.pyz", "w") as archive:
        archive.writestr("__main__.py", main)
        archive.writestr("standalone_build.py", build.replace(suffix.encode(), b".cpython-399-x86_64-linux-gnu.so"))
    shutil.move(root / "rocketstore.pyz", root / "kept.pyz")
    shutil.move(root / "other.pyz", root / "rocketstore.pyz")
    try:
        said = run("info", "/store", status=1)
    finally:
        shutil.move(root / "kept.pyz", root / "rocketstore.pyz")
    assert "modules of Python that end in .cpython-399-x86_64-linux-gnu.so" in said
    assert "use the file of your Python" in said


def test_the_names_of_wheels_say_for_which_of_them_it_is_made(builder):
    made = [
        "rocketstore-0.1.0rc1-cp311-cp311-linux_x86_64.whl",
        "rocketstore-0.1.0-cp312-cp312-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        "rocketstore-0.1.0-cp313-cp313-musllinux_1_2_aarch64.whl",
    ]
    left_out = [
        "rocketstore-0.1.0-cp314-cp314t-manylinux_2_28_x86_64.whl",
        "rocketstore-0.1.0-cp313-cp313-macosx_11_0_arm64.whl",
        "numpy-2.4.0-cp311-cp311-manylinux_2_28_x86_64.whl",
    ]
    kinds = [found[4] for name in made + left_out if (found := re.fullmatch(builder.WHEEL, name))]
    assert kinds == ["linux", "manylinux", "musllinux"]
    assert [builder.EXTRAS[kind] for kind in kinds] == ["cli,codecs", "cli,codecs", "cli"]
