# `make demo` optimizes a shipped example; `make test` is what CI runs on every commit.
PYTHON ?= python3
BIN := .venv/bin
# What tests draw is drawn by the tree of the tests: what failed once fails again, and other tests try other things.
SEED ?= $(shell printf %d 0x$$(git rev-parse --short=7 HEAD:tests 2>/dev/null || echo 1))
# As many workers as cores: a third takes more from the two than it does. A file's tests go to one of them (tests/lanes.py has
# the exceptions and the order). Warnings of modules that a test has made cannot be sent from a worker.
SIDE_BY_SIDE := -n 2 --dist loadfile --no-loadscope-reorder -p no:warnings
# A test that hangs ends as a failed one with its stack; the slowest takes half a minute on a quiet machine.
SHORT := $(SIDE_BY_SIDE) -m "not long and not soak and not gpu" --timeout 900 --hypothesis-seed $(SEED)
# The bytecode of a thousand files is kept, whatever the environment says: tests start many interpreters.
unexport PYTHONDONTWRITEBYTECODE
PINNED := pyproject.toml constraints.txt .ci/environment.py

.PHONY: demo test short quick slowest check long long-whole soak gpu gpu-bundle gpu-first fake-gpu matrix site clean distclean

demo: .venv/installed
	@folder=$$(mktemp -d) && $(BIN)/kernelagent optimize examples/rms_norm_residual.py \
	    --runs "$$folder/runs" --out "$$folder/rms_norm_residual_optimized.py"

# The checks beside the tests: mypy takes one core for as long as nothing is cached.
test: .venv/installed-dev
	@$(MAKE) --no-print-directory --jobs 2 check short

short: .venv/installed-dev
	$(BIN)/pytest $(SHORT)

# The checks, and the tests that the changed files need (since HEAD, or `make quick BASE=main`); where all of these are in the
# long lane pytest says so, with status 5.
quick: check
	@tests=$$($(BIN)/python .ci/changed_tests.py $(BASE)); if [ -z "$$tests" ]; then echo "no test mirrors what has changed"; \
	    else $(BIN)/pytest $(SHORT) $$tests || [ $$? = 5 ]; fi

slowest: .venv/installed-dev
	$(BIN)/pytest $(SHORT) --durations 20 --durations-min 0.5

check: .venv/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports

# Of tests with several cases a third of them, drawn by SEED; `make long-whole`: all.
LONG := $(SIDE_BY_SIDE) -m "(long or hypothesis) and not soak and not gpu" --hypothesis-profile long --timeout 3600 \
    --hypothesis-seed $(SEED)

long: .venv/installed-dev
	$(BIN)/pytest $(LONG) --drawn $(SEED)

long-whole: .venv/installed-dev
	$(BIN)/pytest $(LONG)

soak: .venv/installed-dev
	$(BIN)/pytest -m "soak and not gpu" --timeout 3600

# Sampled, within ten minutes; TRIES=50 tries as often as is promised.
gpu: .venv/installed-dev
	$(BIN)/pytest tests/gpu --timeout 300

# The first thirty minutes on a GPU, in calls of at most ten: call it again to go on.
gpu-first: .venv/installed-dev
	$(BIN)/python -m benchmarks.gpu_first --minutes 10

# What a GPU machine without a network needs beside a checkout, torch and triton.
gpu-bundle: .venv/installed-dev
	$(BIN)/python -m benchmarks.gpu_first.bundle

# The examples under each torch with the triton it brings, and each Python: gigabytes, half an hour.
matrix: .venv/installed-dev
	$(BIN)/python -m benchmarks.versions

# The documentation as a site in build/site, with a search that works from disk; no network.
site: .venv/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# By hand: gigabytes and hours on a busy machine; see tests/fake_cuda/README.md.
fake-gpu: .venv/installed-dev
	$(BIN)/python -m tests.fake_cuda

.venv/installed: $(PINNED)
	$(PYTHON) .ci/environment.py
	@touch $@

.venv/installed-dev: $(PINNED)
	$(PYTHON) .ci/environment.py --dev
	@touch .venv/installed $@

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

distclean: clean
	rm -rf .venv
