# `make demo` optimizes a shipped example; `make test` is what CI runs on every commit.
PYTHON ?= python3
BIN := .venv/bin
# Two workers, a file's tests in one of them: most tests wait for processes of their own. Warnings of
# modules that a test has made cannot be sent from a worker.
SIDE_BY_SIDE := -n 2 --dist loadfile -p no:warnings
PINNED := pyproject.toml constraints.txt .ci/environment.py

.PHONY: demo test check long soak gpu clean distclean

demo: .venv/installed
	@folder=$$(mktemp -d) && $(BIN)/kernelagent optimize examples/rms_norm_residual.py \
	    --runs "$$folder/runs" --out "$$folder/rms_norm_residual_optimized.py"

test: check
	$(BIN)/pytest $(SIDE_BY_SIDE) -m "not long and not soak and not gpu"

check: .venv/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports

long: .venv/installed-dev
	$(BIN)/pytest $(SIDE_BY_SIDE) -m "long and not gpu" --timeout 3600

soak: .venv/installed-dev
	$(BIN)/pytest -m "soak and not gpu" --timeout 3600

gpu: .venv/installed-dev
	$(BIN)/pytest -m gpu

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
