# The commands of the README. Each makes its own environment; nothing outside this folder is touched.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
UV := $(BIN)/uv pip install -q --python $(BIN)/python
STAMP := $(VENV)/.installed
SOURCES := $(wildcard vcs/_hard/*.pyx vcs/_hard/*.pxi vcs/_hard/*.pxd vcs/_hard/*.py vcs/_hard/*.cpp \
	vcs/_hard/*.h vcs/_adjoint/*.cpp vcs/_adjoint/*.h vcs/data/opcodes.csv)
# cpu.pxi is written by the build itself
SOURCES := $(filter-out vcs/_hard/cpu.pxi,$(SOURCES))
JOBS ?= 2

.PHONY: demo test test-all asan tsan install check docs clean

demo: install
	$(BIN)/vcs demo

test: install
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow" tests

# also what takes minutes: more frames, more games, more random programs
test-all: install
	$(BIN)/python -m pytest -n $(JOBS) tests

# the engines with AddressSanitizer and UBSan, or ThreadSanitizer, in a tree of their own below out/, and the
# tests there (tests/sanitizers/README.md)
asan: install
	tests/sanitizers/run.sh address

tsan: install
	tests/sanitizers/run.sh thread

check: install
	$(BIN)/ruff check .
	$(BIN)/mypy

# the documentation as a site, in site/; a warning is an error
docs: install
	$(UV) -r pyproject.toml --extra docs || $(PIP) install -q --no-compile 'glassvcs[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

install: $(STAMP)

$(STAMP): pyproject.toml setup.py $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q uv && $(UV) $(BUILD) -r pyproject.toml --extra all && $(ENGINES) \
		|| $(PIP) install -q --no-compile -e '.[all]'
	touch $@

# First the other packages, by uv, then the engines: the hard machine is compiled twice, the second time for the way
# a training run went, which plays the games of ale-py (a fifth faster; docs/benchmarks.md). VCS_PGO=0 compiles it
# once. Where uv cannot be had, or does not find its way to the packages, pip does it all. BUILD: what pyproject.toml
# requires for building.
BUILD := 'setuptools>=77' 'Cython>=3.0' 'pybind11>=2.12' 'numpy>=2.0'
VCS_PGO ?= try
ENGINES = VCS_PGO=$(VCS_PGO) $(PIP) install -q --no-deps --no-build-isolation -e .

clean:
	rm -rf build dist site *.egg-info vcs/_hard/cpu.pxi vcs/_hard/*.c vcs/_hard/*.so vcs/_adjoint/*.so
