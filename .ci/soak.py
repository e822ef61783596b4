"""Repeat a part of the tests in rounds, each with its own random numbers: ``python .ci/soak.py PART``.

``build/soak/PART`` has a file for each finished round. A round whose file is newer than the package is not repeated, so
that a stopped soak continues. The exit status is 1 if a round failed. Run as ``make soak PART=...``.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

TREE = Path(__file__).parent.parent
FINISHED = TREE / "build/soak"
SOURCES = ("setup.py", "pyproject.toml", "csrc/*.[ch]", "rocketstore/kernels/*.p[yx][xd]")
PYTHON_SOURCES = ("rocketstore", "pyspark_rocketstore")
MAKE = ("make", "--no-print-directory")


def run_pytest(marker: str, paths: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", "-m", f"{marker} and not no_soak", *paths]


def differential(seed: str) -> list[str]:
    """Compare with RocketMQ. Odd rounds begin with the files that wait for it, so that even rounds get the cores."""
    waiting = [f"tests/interop/test_{name}.py" for name in ("write", "salvage", "rebuild")]
    files = sorted(str(path.relative_to(TREE)) for path in TREE.glob("tests/interop/test_*.py"))
    others = [file for file in files if file not in waiting]
    ordered = [*waiting, *others] if int(seed) % 2 else [*others, *waiting]
    bytes_only = ("kernels/test_java_hash", "index/test_index_file_bytes", "index/test_index_service_bytes")
    return run_pytest("seeded and not broker", [*ordered, *(f"tests/{name}.py" for name in bytes_only)])


def flips(seed: str) -> list[str]:
    return run_pytest("seeded", ["tests/index/test_index_file_hostile.py", "tests/store/test_store_hostile.py"])


def crash(seed: str) -> list[str]:
    return run_pytest("seeded and crash", ["tests/index", "tests/store"])


def sanitize(seed: str) -> list[str]:
    return [*MAKE, "sanitize", "MARKERS=seeded", "ARGS=-q"]


def spark_versions(release: str) -> list[str]:
    return [*MAKE, "test-spark", f"SPARK={release}"]


class Part(NamedTuple):
    """A part of the soak.

    Attributes: command: returns the command of a round. rounds: their names, which are the seeds. at_once: rounds that
    run at the same time. RocketMQ's stores wait for seconds when they stop; a part with workers of its own takes both
    cores itself.
    """

    command: Callable[[str], list[str]]
    rounds: Sequence[str]
    at_once: int = 1

    def run(self, directory: Path, name: str) -> bool:
        """Run a round. Return whether it succeeded."""
        seed = {"ROCKETSTORE_SEED": name} if name.isdecimal() else {}
        is_done = subprocess.run(self.command(name), cwd=TREE, env=os.environ | seed, check=False).returncode == 0
        if is_done:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / name).touch()
        return is_done


def count(rounds: int) -> list[str]:
    return [str(number) for number in range(1, rounds + 1)]


PARTS = {
    "differential": Part(differential, count(50), at_once=8),
    "flips": Part(flips, count(100), at_once=2),
    "crash": Part(crash, count(32), at_once=2),
    "sanitize": Part(sanitize, count(5)),
    "spark-versions": Part(spark_versions, ["4.1", "4.2", "4.3"]),
}


def package_files() -> Iterator[Path]:
    for pattern in SOURCES:
        yield from TREE.glob(pattern)
    for package in PYTHON_SOURCES:
        for pattern in ("*.py", "*.pyi"):
            yield from (TREE / package).rglob(pattern)


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in PARTS:
        print(f"make soak PART=... is one of: {' '.join(PARTS)}", file=sys.stderr)
        return 2
    part, directory = PARTS[name], FINISHED / name
    changed = max(path.stat().st_mtime for path in package_files())
    done = {path.name for path in directory.glob("*") if path.stat().st_mtime >= changed}
    with ThreadPoolExecutor(part.at_once) as pool:
        results = list(
            pool.map(lambda seed: part.run(directory, seed), [seed for seed in part.rounds if seed not in done])
        )
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
