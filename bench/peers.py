"""What rocketstore is measured against: RocketMQ's own classes in a JVM, and the plain loops of plain.c."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

HERE = Path(__file__).parent
JAVA = HERE / "java"
ADD_OPENS = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.nio", "jdk.internal.ref", "sun.nio.ch")]


class Java:
    """A process of bench/java: one round for each line. ``main`` is a class there, which says what rounds it knows."""

    def __init__(self, *args: object, main: str = "IndexFileBench") -> None:
        for tool in ("java", "mvn"):
            if not shutil.which(tool):
                pytest.skip(f"needs {tool} on the PATH")
        subprocess.run(["mvn", "-q", "-B", "process-classes"], cwd=JAVA, check=True, stdin=subprocess.DEVNULL)
        classpath = f"{JAVA / 'target/classes'}{os.pathsep}{(JAVA / 'target/classpath.txt').read_text().strip()}"
        command = ["java", "-Xmx2g", *ADD_OPENS, "-cp", classpath, f"org.rocketstore.bench.{main}"]
        self.process = subprocess.Popen(
            [*command, *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def round(self, *words: object) -> tuple[float, int, int]:
        """Run a round; return seconds, count and checksum."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(*words, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().split()
        assert len(answer) == 3, f"bench/java answered {answer} to {words}"
        return float(answer[0]), int(answer[1]), int(answer[2])

    def close(self) -> None:
        self.process.communicate("quit\n", timeout=60)


class Plain:
    """plain.c, compiled with -O3 for any machine."""

    def __init__(self, scratch: Path) -> None:
        library = scratch / "plain.so"
        subprocess.run(["cc", "-O3", "-shared", "-fPIC", "-o", library, HERE / "plain.c"], check=True)
        self.library = ctypes.CDLL(str(library))

    def hash(self, topic: bytes, keys: pa.Array, hashes: np.ndarray) -> None:
        self.library.plain_hash(topic, _size(len(topic)), *_column(keys), _size(len(keys)), _pointer(hashes))

    def put(
        self, file: np.ndarray, slots: int, topic: bytes, keys: pa.Array, phy: np.ndarray, times: np.ndarray
    ) -> None:
        self.library.plain_put(
            _pointer(file),
            ctypes.c_uint32(slots),
            topic,
            _size(len(topic)),
            *_column(keys),
            _pointer(phy),
            _pointer(times),
            _size(len(keys)),
        )


def _size(n: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(n)


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _column(keys: pa.Array) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
    _, offsets, data = keys.buffers()
    return ctypes.c_void_p(data.address), ctypes.c_void_p(offsets.address)
