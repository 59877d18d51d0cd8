# The two commands of the README. Each makes its own environment; nothing outside this folder is touched.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := $(wildcard vcs/_hard/*.pyx vcs/_hard/*.pxi vcs/_hard/*.pxd vcs/_hard/*.py vcs/_hard/*.cpp \
	vcs/_hard/*.h vcs/_adjoint/*.cpp vcs/_adjoint/*.h vcs/data/opcodes.csv)
# cpu.pxi is written by the build itself
SOURCES := $(filter-out vcs/_hard/cpu.pxi,$(SOURCES))
JOBS ?= 2

.PHONY: demo test test-all install check clean

demo: install
	$(BIN)/vcs demo

test: install
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow" tests

# also what takes minutes: more frames, more games, more random programs
test-all: install
	$(BIN)/python -m pytest -n $(JOBS) tests

check: install
	$(BIN)/ruff check .
	$(BIN)/mypy

install: $(STAMP)

$(STAMP): pyproject.toml setup.py $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --no-compile --disable-pip-version-check -e '.[all]'
	touch $@

clean:
	rm -rf build dist *.egg-info vcs/_hard/cpu.pxi vcs/_hard/*.c vcs/_hard/*.so vcs/_adjoint/*.so
