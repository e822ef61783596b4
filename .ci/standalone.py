"""Make the self-contained command of a wheel: one file that needs a Python, and neither a compiler nor a network.

Usage: ``.ci/standalone.py OUT WHEEL...``. For each wheel of Linux, OUT gets two things: a directory with the wheels of
rocketstore and of the packages that it needs, and a file ``.pyz``, which is made from these wheels. Wheels of other
systems, and of free-threaded Pythons, are left out. The wheels of other packages come from PyPI. Their Python need not
be on this machine.
"""

import hashlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipapp
from pathlib import Path

CI = Path(__file__).parent
EXTRAS = {"linux": "cli,codecs", "manylinux": "cli,codecs", "musllinux": "cli"}  # lz4 has no wheels for musl
# A wheel for one of these platforms also runs on the ones before it.
GLIBC = (
    "manylinux1",
    "manylinux2010",
    "manylinux2014",
    "manylinux_2_17",
    "manylinux_2_26",
    "manylinux_2_27",
    "manylinux_2_28",
)
MUSL = ("musllinux_1_1", "musllinux_1_2")
LIBRARIES = "libgcc_s.so.1", "libstdc++.so.6"  # NumPy needs them, and some hosts lack them
# A wheel of CPython with the GIL on Linux: version of Python, kind of platform, processor.
WHEEL = (
    r"rocketstore-([\w.]+)-cp(\d)(\d+)-cp\2\3-.*?\b(linux|manylinux|musllinux)(?:_\d+_\d+|\d+)?_(x86_64|aarch64)\.whl"
)


def download_wheels(wheel: Path, directory: Path) -> None:
    """Write a wheel and the wheels of all packages that it needs to a directory."""
    found = re.fullmatch(WHEEL, wheel.name)
    assert found
    _, major, minor, kind, processor = found.groups()
    platforms = [f"{name}_{processor}" for name in (MUSL if kind == "musllinux" else ("linux", *GLIBC))]
    chosen = [argument for name in platforms for argument in ("--platform", name)]
    python = ["--implementation", "cp", "--python-version", f"{major}.{minor}", "--only-binary", ":all:"]
    run_pip("download", "--dest", directory, *python, *chosen, f"{wheel}[{EXTRAS[kind]}]")


def unpack_wheels(wheels: Path, directory: Path) -> None:
    """Unpack the wheels of a directory. None of them needs an installer."""
    for wheel in sorted(wheels.glob("*.whl")):
        shutil.unpack_archive(wheel, directory, "zip")


def make_archive(packages: Path, archive: Path) -> None:
    """Make the self-contained command of a directory with unpacked packages. NumPy's tests are left out."""
    (suffix,) = {path.name.partition(".")[2] for path in (packages / "rocketstore" / "kernels").glob("*.so")}
    version = re.match(r"cpython-(\d)(\d+)-", suffix)
    assert version
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        leave_out = shutil.ignore_patterns("__pycache__", "tests")
        shutil.copytree(packages, root / "packages", ignore=leave_out)
        if f"-{platform.machine()}-linux-gnu" in suffix:  # musl has its own, which its wheels bring
            copy_libraries(root / "packages" / "lib")
        shutil.copy(CI / "standalone_main.py", root / "__main__.py")
        build = f"DIGEST = {digest_of(root)!r}\nSUFFIX = {'.' + suffix!r}\nLIBRARIES = {LIBRARIES!r}\n"
        (root / "standalone_build.py").write_text(build, encoding="utf-8")
        archive.parent.mkdir(parents=True, exist_ok=True)
        zipapp.create_archive(root, archive, f"/usr/bin/env python{version[1]}.{version[2]}", compressed=True)
    archive.chmod(0o755)


def copy_libraries(directory: Path) -> None:
    """Copy the libraries that hosts may lack from this machine. A host that has them uses its own."""
    directory.mkdir()
    for name in LIBRARIES:
        command = ["gcc", f"-print-file-name={name}"]
        found = Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
        if found.is_absolute():
            shutil.copy(found.resolve(), directory / name)


def digest_of(root: Path) -> str:
    """Return a digest of all files below a directory: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root)} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def run_pip(*arguments: str | Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, *arguments], check=True)


def make_standalone(wheel: Path, out: Path) -> Path | None:
    """Make the directory of wheels and the self-contained command of a wheel in a directory.

    Returns: the path of the command; None for a wheel of another system, or of a free-threaded Python.
    """
    found = re.fullmatch(WHEEL, wheel.name)
    if found is None:
        return None
    version, major, minor, kind, processor = found.groups()
    name = f"rocketstore-{version}-python{major}.{minor}-{'musl' if kind == 'musllinux' else 'linux'}-{processor}"
    wheels = out / f"{name}-wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    wheels.mkdir(parents=True)
    download_wheels(wheel, wheels)
    with tempfile.TemporaryDirectory() as packages:
        unpack_wheels(wheels, Path(packages))
        make_archive(Path(packages), out / f"{name}.pyz")
    return out / f"{name}.pyz"


def main() -> None:
    for name in sys.argv[2:]:
        command = make_standalone(Path(name).resolve(), Path(sys.argv[1]))
        print(f"{name}: {command or 'has no self-contained command'}", flush=True)


if __name__ == "__main__":
    main()
