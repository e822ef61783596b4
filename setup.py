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
elif not checks:
    compile_args.append("-g0")  # many Pythons compile with -g, which makes a wheel three times as large
if not checks:
    compile_args.append("-DNDEBUG")

KERNELS = sorted(Path("rocketstore/kernels").glob("*.pyx"))
C_SOURCES = sorted(map(str, Path("csrc").glob("*.c")))
C_HEADERS = sorted(map(str, Path("csrc").glob("*.h")))

setup(
    ext_modules=cythonize(
        [
            Extension(
                f"rocketstore.kernels.{kernel.stem}",
                [str(kernel)],
                include_dirs=["csrc"],
                depends=[*C_SOURCES, *C_HEADERS],
                extra_compile_args=compile_args,
                extra_link_args=SANITIZERS[sanitizer],
            )
            for kernel in KERNELS
        ],
        compiler_directives={
            "language_level": 3,
            "boundscheck": checks,
            "wraparound": False,
            "initializedcheck": checks,
            "cdivision": True,
            "allow_none_for_extension_args": False,
            "embedsignature": True,
            "freethreading_compatible": True,
        },
    ),
    libraries=[
        (
            "rocketstore_c",
            {
                "sources": C_SOURCES,
                "include_dirs": ["csrc"],
                "obj_deps": {"": C_HEADERS},
                "cflags": compile_args,
            },
        )
    ],
    options={"build_ext": {"parallel": os.cpu_count()}},
)
