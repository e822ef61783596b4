# The commands of README.md and CONTRIBUTING.md, which CI uses too. What they make is in .venv, build and dist.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
# What is imported is compiled then; most of these packages' 1.5 GB never is.
PIP := $(RUN) -m pip --disable-pip-version-check install --quiet --no-compile

# Container images often set this variable. Then each process of the tests would compile all modules that it imports.
unexport PYTHONDONTWRITEBYTECODE

EXTENSIONS := setup.py $(wildcard csrc/*.[ch] rocketstore/kernels/*.p[yx][xd])
PACKAGE := $(EXTENSIONS) pyproject.toml $(shell find rocketstore pyspark_rocketstore -name '*.py' -o -name '*.pyi')
STUBS := $(basename $(notdir $(wildcard rocketstore/kernels/*.pyi)))

# Where Java is missing, its tests are left out at once and not skipped one by one.
ifeq ($(JAVA_HOME)$(shell command -v java),)
NO_JAVA = $() and not java and not spark and not interop
SAY_JAVA := echo "Java is missing: the tests of Spark and those against RocketMQ's own classes are left out."
endif

.PHONY: demo test test-all test-connect test-cluster test-spark soak bench lint house sanitize wheel wheels standalone check-tag github-release check-rocketmq docs docs-archive build clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

# Releases of Spark, each in a virtual environment of its own.
SPARK := 4.1 4.2 4.3

# tests/conftest.py says what is one worker's; ARGS="-n 0" is for a debugger. A worker that dies ends the run, as xdist
# hangs when it replaces one whose earlier files are all done.
WORKERS ?= 2
PYTEST = -m pytest -n $(WORKERS) --max-worker-restart 0

# Arguments of the demo, as ARGS="--messages 100000".
demo: build
	$(RUN) examples/demo.py $(ARGS)

# A change is judged by what it changes: its random input is the same each time. test-all and soak draw new input.
test: export ROCKETSTORE_SEED ?= 1
test: build
	@$(SAY_JAVA)
	$(RUN) $(PYTEST) -m "not slow and not interop and not cluster$(NO_JAVA)" $(ARGS)

# The workers that have Spark and RocketMQ wait for them much of the time.
test-all: export WORKERS := 3
test-all: build $(VENV)/docs
	@$(SAY_JAVA)
	$(RUN) $(PYTEST) -m "not cluster$(NO_JAVA)" $(ARGS)
	$(if $(NO_JAVA),,$(MAKE) test-connect)
	$(if $(NO_JAVA),,$(MAKE) test-cluster SESSIONS=cluster TESTS="$(CLUSTER_PART)")
	$(MAKE) sanitize

# The tests of Spark once more, through Spark Connect.
test-connect: build $(VENV)/connect
	ROCKETSTORE_SPARK=connect $(RUN) $(PYTEST) -m "spark and not cluster" $(ARGS)

# The tests of Spark once more on a cluster of this machine: a standalone master with two workers, the executors of a
# driver (local-cluster), and the standalone cluster through Spark Connect. The workers have an environment of their own with
# the wheel; a test sends it to them as an archive. One process runs all tests of a session, since each process would
# start a cluster. The server of Connect runs the function of foreachBatch with the workers' Python, which needs grpcio.
# test-all runs only CLUSTER_PART, which takes about ten minutes.
SESSIONS := cluster local-cluster connect-cluster
TESTS := tests
CLUSTER_PART := $(addprefix tests/spark/test_spark_,cluster.py query.py read.py remote.py sink.py stream.py stream_sink.py tables.py)
WORKER := $(CURDIR)/build/cluster/environment

test-cluster: export WORKERS := 1
test-cluster: build $(VENV)/connect $(WORKER).tar.gz
	for session in $(SESSIONS); do \
		ROCKETSTORE_SPARK=$$session ROCKETSTORE_WORKER_PYTHON=$(WORKER)/bin/python \
			ROCKETSTORE_WORKER_ARCHIVE=$(WORKER).tar.gz $(RUN) $(PYTEST) -m spark $(TESTS) $(ARGS) || exit; \
	done

$(WORKER).tar.gz: $(PACKAGE) Makefile | $(VENV)/pip
	rm -rf build/cluster
	$(RUN) -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation --wheel-dir build/cluster .
	$(PYTHON) -m venv $(WORKER)
	$(WORKER)/bin/pip --disable-pip-version-check install --quiet --no-compile \
		"$$(ls build/cluster/*.whl)[arrow,codecs,pandas,remote,rocksdb]" pytest hypothesis s3fs grpcio grpcio-status zstandard
	tar -C $(WORKER) -czf $@ .

# PySpark itself leaves sockets open in some releases.
test-spark: $(SPARK:%=build/spark-%/installed)
	for release in $(SPARK); do for session in classic connect; do \
		ROCKETSTORE_SPARK=$$session PYTHONSAFEPATH=1 build/spark-$$release/bin/python $(PYTEST) -q -m "spark and not cluster" \
			-W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning $(ARGS) || exit; \
	done; done

build/spark-%/installed: $(PACKAGE)
	$(PYTHON) -m venv build/spark-$*
	build/spark-$*/bin/pip install --quiet --upgrade pip
	build/spark-$*/bin/pip install --quiet --group test "pyspark[sql,connect]==$*.*" '.[arrow,cli,codecs]'
	touch $@

bench: build $(VENV)/bench
	$(RUN) -m pytest bench $(ARGS)

# ---- the virtual environment, with the extensions built in the tree ----

# Not a prerequisite but a second make: the first installation builds the extensions too.
build: $(VENV)/installed
	@$(MAKE) --no-print-directory --silent $(VENV)/built

$(VENV)/pip:
	@$(PYTHON) -c 'import sys; sys.version_info < (3, 11) and sys.exit("needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip
	touch $@

$(VENV)/installed: pyproject.toml setup.py | $(VENV)/pip
	$(PIP) --group build --group test
	$(PIP) --no-build-isolation --editable '.[arrow,cli,codecs,spark]'
	touch $(VENV)/built $@

$(VENV)/built: $(EXTENSIONS)
	@echo "compiling the extensions"
	$(RUN) setup.py --quiet build_clib build_ext --inplace
	touch $@

# A dependency group of pyproject.toml, beside what is there.
$(VENV)/%: pyproject.toml | $(VENV)/pip
	$(PIP) --group $*
	touch $@

# ---- lint ----

lint: export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
lint: build $(VENV)/lint
	ruff check .
	ruff format --check .
	mypy
	$(RUN) -m mypy.stubtest --mypy-config-file pyproject.toml --ignore-disjoint-bases --allowlist .ci/stubtest-allowlist \
		$(STUBS:%=rocketstore.kernels.%)
	cython-lint rocketstore/kernels/*.pyx rocketstore/kernels/*.pxd
	check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	cibuildwheel --print-build-identifiers --platform linux --archs x86_64,aarch64
	cibuildwheel --print-build-identifiers --platform macos --archs x86_64,arm64
	$(RUN) -m pytest -q tests/project/test_layers.py tests/project/test_packaging.py
	$(RUN) .ci/house.py

# Sizes of rooms, files and functions; circles, imports of later rooms, and repeated names.
house: build
	$(RUN) .ci/house.py

# ---- sanitizers: the same tests on a build apart from the tree's ----

SANITIZE ?= address
SANITIZED := build/sanitize/$(SANITIZE)
# Address: all that needs neither Java nor Spark; how soon Ctrl-C is answered, how much memory is taken and what needs
# a preloaded library of its own is the normal build's affair.
# Thread: what runs threads.
TESTS_address = tests --ignore tests/index/test_index_file_interrupt.py --ignore tests/store/test_store_memory.py \
	--ignore tests/disk/test_small_file.py --ignore tests/examples/test_notebook.py
TESTS_thread := tests/index/test_index_file_threads.py $(addprefix tests/store/test_store_,writer.py flush.py threads.py forks.py failures.py)
MARKERS ?= not slow
PRELOAD_address := libasan.so libubsan.so
PRELOAD_thread := libtsan.so
# Newer kernels scatter mappings further than the shadow memory of older TSans allows.
WRAPPER_thread := setarch -R

# handle_sigbus=0: a bus error reaches the fault guard first, and ends a process as in the normal build.
# die_after_fork=0: else TSan ends a forked process that starts threads, as those of some tests do.
# The tests run from a copy, beside which there is no package but the sanitized one.
sanitize: build $(SANITIZED)/built $(SANITIZED)/c
	rm -rf $(SANITIZED)/tests $(SANITIZED)/examples && cp -R pyproject.toml tests examples $(SANITIZED)
	cd $(SANITIZED) && $(WRAPPER_$(SANITIZE)) env PYTHONPATH=$(CURDIR)/$(SANITIZED)/lib PYTHONMALLOC=malloc \
		ASAN_OPTIONS=detect_leaks=0:handle_sigbus=0 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1:die_after_fork=0 \
		LD_PRELOAD="$(foreach library,$(PRELOAD_$(SANITIZE)),$$(gcc -print-file-name=$(library)))" \
		$(CURDIR)/$(RUN) $(PYTEST) -p no:cacheprovider -m "($(MARKERS)) and not normal_build and not interop and not java and not spark" \
		$(TESTS_$(SANITIZE)) $(ARGS)

# gcc, whose run-time libraries can be preloaded by name.
$(SANITIZED)/built: $(PACKAGE)
	CC=gcc ROCKETSTORE_SANITIZE=$(SANITIZE) $(RUN) setup.py --quiet build \
		--build-lib $(SANITIZED)/lib --build-temp $(SANITIZED)/temp
	touch $@

build/sanitize/thread/c:
	mkdir -p $@

build/sanitize/address/c: $(wildcard csrc/*.[ch] tests/c/*.[ch])
	$(MAKE) -C tests/c check CC=gcc BUILD=$(CURDIR)/$@ CFLAGS="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
	touch $@

# ---- soak: a part of the tests, round by round ----

PART ?=

soak: build
	$(RUN) .ci/soak.py $(PART)

# ---- distributions ----

# A wheel for each CPython of this machine, built from the sdist and tested away from the tree with only NumPy and pytest.
# Each wheel of Linux also becomes a self-contained command in dist/standalone.
wheel: $(VENV)/wheel
	rm -rf dist build/wheel
	$(RUN) -m build --sdist
	$(RUN) .ci/wheels.py dist/rocketstore-*.tar.gz

# The self-contained commands of dist's wheels: one file each, that needs only a Python. For CI; make wheel makes them too.
standalone: $(VENV)/pip
	$(RUN) .ci/standalone.py dist/standalone dist/wheels/*.whl

# The wheels of this machine's platform, from dist's sdist. For CI.
wheels: $(VENV)/lint
	$(VENV)/bin/cibuildwheel --output-dir dist/wheels dist/rocketstore-*.tar.gz

# ---- documentation: build/site, from docs/ and from pages that are generated from the code ----

# The address of the repository is that of the workflow, else of git's remote; without both the pages have no link to it.
REPOSITORY ?= $(if $(GITHUB_REPOSITORY),$(GITHUB_SERVER_URL)/$(GITHUB_REPOSITORY),$(filter https://%,$(shell git remote get-url origin 2>&1)))

docs: export REPOSITORY := $(REPOSITORY)
docs: build $(VENV)/docs
	$(RUN) .ci/docs.py build/docs
	$(VENV)/bin/zensical build --strict

# The documentation as one file, which a release has.
docs-archive: docs
	mkdir -p dist
	tar -czf dist/rocketstore-docs.tar.gz -C build/site .

# ---- releases: docs/releasing.md ----

TAG ?= $(shell git describe --tags --exact-match)

check-tag:
	$(PYTHON) .ci/release.py check "$(TAG)"

# Needs GitHub's command gh.
github-release: check-tag
	mkdir -p build
	$(PYTHON) .ci/release.py notes > build/notes.md
	gh release create "$(TAG)" dist/* --verify-tag $(if $(findstring rc,$(TAG)),--prerelease) --title "rocketstore $(TAG)" --notes-file build/notes.md

check-rocketmq:
	$(PYTHON) .ci/release.py rocketmq

clean:
	rm -rf $(VENV) build dist *.egg-info rocketstore/kernels/*.so
	find rocketstore/kernels -name '*.c' -delete
