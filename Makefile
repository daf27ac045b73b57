# make demo   see a network forget a backdoor, in about a minute
# make docs   the documentation as pages, in docs/built
# make test   format check, lint, types, tests, doctests
# make coverage   the tests again, and which lines they run
# make torture   what is promised of reliability, in full; goes on where it was stopped (FAMILY="death fuzz" for some)
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test coverage torture docs format clean

demo: .venv/installed
	$(BIN)/unsee demo

test: .venv/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyrefly check
	$(BIN)/pytest

coverage: .venv/installed-dev
	$(BIN)/pytest --cov --cov-report=term

docs: .venv/installed-dev
	$(BIN)/sphinx-build -q -W --keep-going -c docs . docs/built

torture: .venv/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m torture $(FAMILY)

format: .venv/installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv runs
