# Every target works from a fresh clone: it makes its own virtual environment and installs into it.
# Needs Python 3.11 or newer (choose one with PYTHON=...), make and a package index.

PYTHON ?= python3
VENV := .venv
CORE := .venv-core
PYTEST_ARGS ?= -n 2 --dist worksteal
PAPER_ARGS ?=
FUZZ_ARGS ?=

ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 VECLIB_MAXIMUM_THREADS=1
# Modules are compiled when they are first imported, which few of them are, and kept, for every
# target starts many processes: also where the environment says to keep no bytecode.
export PYTHONDONTWRITEBYTECODE :=
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
# Two targets at once. Tests have two processes, so that no core idles when one target ends first.
together = $(MAKE) $(1) & first=$$!; $(MAKE) $(2); second=$$?; wait $$first && exit $$second

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo quick test lint test-full test-core test-versions fuzz docs linkcheck bench scale paper paper-quick clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/installed-cli  ## a worked example: a summary on the screen, a report in demo-output/
	$(VENV)/bin/ebcd demo -o demo-output --force

quick: lint  ## before every commit, within a minute: lint and one case of every test that is not slow
	$(ONE_THREAD) $(VENV)/bin/python -m pytest $(PYTEST_ARGS) -q -m "not slow" --one-case

test:  ## everything that must hold: lint, tests, coverage, docs
	@$(call together,$(VENV)/installed-dev,test-core)
	@$(call together,docs lint,test-full)

lint: $(VENV)/installed-dev  ## formatting, style, types, layers
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache

test-full: $(VENV)/installed-dev  ## tests and doctests, with coverage
	$(ONE_THREAD) $(VENV)/bin/python -m pytest $(PYTEST_ARGS) --cov --cov-report=term

test-core: $(CORE)/installed-test  ## one case of each test, on the wheel of the source distribution with only the core
	$(ONE_THREAD) $(CORE)/bin/python -m pytest $(PYTEST_ARGS) --one-case --doctest-ignore-import-errors --pyargs \
		tests/data tests/estimators tests/peers tests/priors tests/report tests/test_*.py ebcd

# Every Python that is on the path; PYTHONS="..." names others.
PYTHONS ?= $(foreach minor,11 12 13 14,$(shell python3.$(minor) -c pass >/dev/null 2>&1 && echo python3.$(minor)))

test-versions:  ## one case of each test of the core, with the oldest and the newest dependencies
	@for python in $(PYTHONS); do for versions in "--constraint tests/oldest.txt" ""; do \
		echo "$$python, $${versions:-newest versions}"; rm -rf .venv-versions; \
		$$python -m venv .venv-versions && \
		.venv-versions/bin/python $(INSTALL) --upgrade '.[test]' $$versions && \
		$(ONE_THREAD) .venv-versions/bin/python -m pytest $(PYTEST_ARGS) -q --one-case --doctest-ignore-import-errors \
			--pyargs tests/data tests/estimators tests/io tests/peers tests/priors tests/report tests/test_*.py ebcd \
			|| exit 1; \
	done; done

fuzz: $(VENV)/installed-dev  ## hostile calls, and mutated files for three hours; FUZZ_ARGS="--seconds 20" for less
	$(ONE_THREAD) $(VENV)/bin/python -m benchmarks.hostile
	$(ONE_THREAD) $(VENV)/bin/python -m benchmarks.kinds
	$(ONE_THREAD) $(VENV)/bin/python -m benchmarks.fuzz $(FUZZ_ARGS)

docs: $(VENV)/installed-dev  ## run the gallery, build docs/_build/html; a warning is an error
	rm -rf docs/generated
	$(ONE_THREAD) $(VENV)/bin/python -m sphinx -E -q -W --keep-going -b html docs docs/_build/html
	@echo "documentation: docs/_build/html/index.html"

linkcheck: $(VENV)/installed-dev  ## try every link to the outside; needs a network
	$(VENV)/bin/python -m sphinx -E -q -b linkcheck -D plot_gallery=0 docs docs/_build/linkcheck

bench: $(VENV)/installed-dev  ## speed and accuracy of the solvers, on one thread
	$(ONE_THREAD) $(VENV)/bin/python benchmarks/bench_ebnm.py
	$(ONE_THREAD) $(VENV)/bin/python benchmarks/bench_ebcd.py
	$(ONE_THREAD) $(VENV)/bin/python -m benchmarks.bench_search check
	$(ONE_THREAD) $(VENV)/bin/python benchmarks/bench_scale.py --strict
	$(ONE_THREAD) $(VENV)/bin/python benchmarks/bench_penalized.py
	$(ONE_THREAD) $(VENV)/bin/python benchmarks/bench_peers.py
	$(ONE_THREAD) $(VENV)/bin/python benchmarks/bench_eb_peers.py
	$(ONE_THREAD) $(VENV)/bin/python benchmarks/bench_methods.py
	$(ONE_THREAD) $(VENV)/bin/python benchmarks/bench_report.py
	$(ONE_THREAD) $(VENV)/bin/python benchmarks/bench_out_of_core.py
	$(ONE_THREAD) $(VENV)/bin/python benchmarks/bench_uncertainty.py
	$(ONE_THREAD) $(VENV)/bin/python benchmarks/bench_prediction.py
	$(ONE_THREAD) $(VENV)/bin/python benchmarks/bench_checkpoint.py
	$(ONE_THREAD) $(VENV)/bin/python benchmarks/bench_dask.py

scale: $(VENV)/installed-dev  ## curves of time and memory, and their page, 15 minutes on a machine that is idle
	$(ONE_THREAD) $(VENV)/bin/python -m benchmarks.bench_curves
	$(ONE_THREAD) $(VENV)/bin/python -m benchmarks.bench_billion
	$(ONE_THREAD) $(VENV)/bin/python benchmarks/bench_scale.py --threads 1 --results benchmarks/results/threads_1.json
	$(ONE_THREAD) $(VENV)/bin/python benchmarks/bench_scale.py --threads 2 --results benchmarks/results/threads_2.json
	$(VENV)/bin/python -m benchmarks.scale_page

paper: $(VENV)/installed-paper  ## the experiments of the paper, 10 to 20 minutes; goes on where it was interrupted
	$(ONE_THREAD) $(VENV)/bin/python -m experiments --page docs/paper.md $(PAPER_ARGS)

paper-quick: $(VENV)/installed-paper  ## the same with two data sets, in less than two minutes
	$(ONE_THREAD) $(VENV)/bin/python -m experiments --quick --output paper-quick-output $(PAPER_ARGS)

clean:  ## remove everything the other targets made
	rm -rf $(VENV) $(CORE) .venv-versions demo-output paper-quick-output experiments/results/records docs/_build docs/generated dist .coverage .coverage.* htmlcov
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp per extra; a changed pyproject.toml or version installs again, and any change a built wheel.
$(VENV)/installed-%: pyproject.toml src/ebcd/_version.py
	$(call make-venv,$(VENV))
	$(VENV)/bin/python $(INSTALL) --editable '.[$*]'
	@touch $@

$(CORE)/installed-%: pyproject.toml $(shell find src -type f -not -name '*.pyc')
	$(call make-venv,$(CORE))
	$(CORE)/bin/python $(INSTALL) build
	rm -rf dist
	$(CORE)/bin/python -m build > $(CORE)/build.log || { cat $(CORE)/build.log; exit 1; }
	$(CORE)/bin/python $(INSTALL) "$$(echo dist/*.whl)[$*]"
	@touch $@

define make-venv
@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "ebcd needs Python 3.11 or newer: make PYTHON=python3.x ...")'
$(PYTHON) -m venv $(1)
endef
