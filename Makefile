# Every target makes what it needs: `make demo` or `make test` on a fresh clone is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo test test-slow test-browser browser docs check format clean
.DEFAULT_GOAL := install

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing bacadi into $(VENV)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)
	@$(BIN)/bacadi demo --out demo

# The sampler compiles beside the tests that do not need it, which come first (tests/conftest.py); each worker would
# compile it for itself otherwise.
test: $(STAMP)
	@$(BIN)/bacadi warm-up >/dev/null 2>&1 & \
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --doctest-modules tests src/bacadi

test-slow: $(STAMP)
	@$(BIN)/python -m pytest -m slow tests

# `make test` drives the report in a browser where there is one; this installs Debian's and insists on it.
test-browser: $(STAMP) browser
	@BACADI_BROWSER=required $(BIN)/python -m pytest tests/report/test_browser.py

browser:
	@command -v chromedriver >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver >/dev/null; \
	  else echo "install Chromium and its driver as root, on Debian: apt-get install chromium chromium-driver" >&2; exit 1; \
	  fi; }

$(STAMP).docs: $(STAMP)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev,docs]'
	@touch $@

# Builds the site into docs/_build/html; tutorials are executed, warnings are errors, nothing is fetched.
docs: $(STAMP).docs
	@rm -rf docs/_build
	@$(BIN)/bacadi warm-up >/dev/null
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m sphinx -W --keep-going -q -j 2 -d docs/_build/doctrees docs docs/_build/html
	@echo "docs/_build/html/index.html"

check: $(STAMP)
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo

format: $(STAMP)
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

clean:
	@rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis docs/_build
