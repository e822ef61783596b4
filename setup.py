"""The extension modules and their compiler flags; everything else is in pyproject.toml.

ROCKETSTORE_SANITIZE=address  AddressSanitizer and UndefinedBehaviorSanitizer
ROCKETSTORE_SANITIZE=thread   ThreadSanitizer
ROCKETSTORE_CHECKS=1          Cython's bounds checks, and assertions in C
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SANITIZERS = {
    "": [],
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "thread": ["-fsanitize=thread"],
}

checks = os.environ.get("ROCKETSTORE_CHECKS") == "1"
sanitizer = os.environ.get("ROCKETSTORE_SANITIZE", "")
if sanitizer not in SANITIZERS:
    raise SystemExit(f"ROCKETSTORE_SANITIZE={sanitizer}: must be one of address, thread, or not set")

# What Cython generates has unused parameters and helpers.
compile_args = ["-std=c11", "-O3", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused", "-Wno-unused-parameter"]
if sanitizer:
    compile_args += ["-O1", "-g", "-fno-omit-frame-pointer", *SANITIZERS[sanitizer]]
if not checks:
    compile_args.append("-DNDEBUG")

HASH = ["csrc/rs_java_hash.c", "csrc/rs_cpu.c"]
BYTES = ["csrc/rs_scan_bytes.c", "csrc/rs_utf8.c"]
SOURCES = {
    "csrc": [*HASH, *BYTES, "csrc/rs_crc32.c"],
    "buffer": [],
    "text": HASH,
    "arrow_c": [],
    "arrow_export": [],
    "keys": HASH,
    "phy_offsets": [],
    "record": [*HASH, *BYTES, "csrc/rs_crc32.c"],
    "record_columns": [*BYTES, "csrc/rs_cpu.c"],
    "record_filter": [*HASH, *BYTES],
    "record_match": [],
    "record_windows": [],
    "record_encoder": ["csrc/rs_crc32.c", "csrc/rs_cpu.c"],
    "column_encoder": [],
    "appender": [],
    "dispatch": [*HASH, *BYTES],
    "commit_log": [*BYTES, "csrc/rs_cpu.c"],
    "consume_queue": ["csrc/rs_columns.c", "csrc/rs_cpu.c"],
    "verify": ["csrc/rs_crc32.c", "csrc/rs_cpu.c"],
    "salvage": [*BYTES, "csrc/rs_cpu.c"],
    "index_put": [],
    "index_select": ["csrc/rs_cpu.c"],
    "index_requests": HASH,
    "index_file": [],
}

setup(
    ext_modules=cythonize(
        [
            Extension(
                f"rocketstore.kernels.{name}",
                [f"rocketstore/kernels/{name}.pyx", *sources],
                include_dirs=["csrc"],
                depends=sorted(map(str, Path("csrc").glob("*.h"))),
                extra_compile_args=compile_args,
                extra_link_args=SANITIZERS[sanitizer],
            )
            for name, sources in SOURCES.items()
        ],
        compiler_directives={
            "language_level": 3,
            "boundscheck": checks,
            "wraparound": False,
            "initializedcheck": checks,
            "cdivision": True,
            "embedsignature": True,
            "freethreading_compatible": True,
        },
    )
)
