# Everything here needs Python 3.11 and nothing else. Another interpreter, up to 3.14: make test-python PYTHON=python3.13
PYTHON ?= python3.11
VENV ?= $(if $(filter test-python,$(MAKECMDGOALS)),.venv-$(notdir $(PYTHON)),$(if $(filter test-spark4,$(MAKECMDGOALS)),.venv-spark4,.venv))

# An absolute path, because examples and tests may run programs from other directories.
override VENV := $(abspath $(VENV))
# Python compiles what is imported; pip would compile all of PySpark and Ray, which takes as long as the rest of it.
PIP_INSTALL = $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
# What is imported has to be kept compiled: each test on Ray starts processes that import all of it again.
unexport PYTHONDONTWRITEBYTECODE
# Two processes share the tests, file by file, in the order of tests/conftest.py.
PARALLEL = --numprocesses 2 --dist loadscope --no-loadscope-reorder

# make test PYTHON=python3.12 must not run with what an environment of before has.
ifneq ($(origin PYTHON),file)
ifneq ($(wildcard $(VENV)/bin/python),)
version = $(shell $(1) -c 'import sys; print(sys.version_info[:2])')
ifneq ($(call version,$(VENV)/bin/python),$(call version,$(PYTHON)))
$(error $(VENV) is of another Python than $(PYTHON): remove it, or name another one by VENV=)
endif
endif
endif

.PHONY: demo test test-python test-spark4 long fast check docs wheel

demo: $(VENV)/installed
	$(VENV)/bin/python -m examples.spark.dependencies

# A third process, since the tests on a cluster mostly wait.
test: $(VENV)/installed-test
	$(VENV)/bin/python -m pytest $(PARALLEL) --numprocesses 3 -m "not long" --every-extra

# The same in an environment of its own, .venv-python3.13. Spark 3.5 does not run on Python 3.13: tests of Spark are skipped.
test-python: $(VENV)/installed-test
	$(VENV)/bin/python -m pytest $(PARALLEL) --numprocesses 3 -m "not long"

# The tests of the Spark bridge with Spark 4, in an environment of its own, .venv-spark4.
test-spark4: $(VENV)/installed-spark4
	$(VENV)/bin/python -m pytest tests/spark tests/unit/spark_bridge

# What make test leaves out to end within 12 minutes.
long: $(VENV)/installed-test
	$(VENV)/bin/python -m pytest $(PARALLEL) -m long
	TIDEWHEEL_EXAMPLES=5 $(VENV)/bin/python -m pytest $(PARALLEL) -m "not long" tests/laws tests/behaviour/operators

fast: $(VENV)/installed-test
	$(VENV)/bin/python -m pytest $(PARALLEL) -m "not ray and not spark and not long"

check: $(VENV)/installed-dev
	$(VENV)/bin/python -m ruff check
	$(VENV)/bin/python -m ruff format --check
	$(VENV)/bin/python -m mypy

# The pages and pictures that are made from the sources, then the site: build/site/index.html.
docs: $(VENV)/installed-docs
	$(VENV)/bin/python docs/operators_table.py
	$(VENV)/bin/python docs/command_line_page.py
	$(VENV)/bin/python docs/examples_page.py
	$(VENV)/bin/python docs/reference_pages.py
	$(VENV)/bin/python docs/flow_pictures.py
	$(VENV)/bin/python docs/collection_pictures.py
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --quiet --strict

# The package to hand over: build/wheel/tidewheel-*.whl. What an earlier build has left would be in it, too.
wheel: $(VENV)/bin/python
	rm -rf build/lib build/wheel
	$(VENV)/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/wheel .

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# Every extra, so that all of tidewheel runs, and what the command needs besides.
$(VENV)/installed: EXTRAS = all
$(VENV)/installed-docs: EXTRAS = all,docs
$(VENV)/installed-test: EXTRAS = all,docs,examples,test
$(VENV)/installed-dev: EXTRAS = dev
$(VENV)/installed $(VENV)/installed-docs $(VENV)/installed-test $(VENV)/installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP_INSTALL) --editable ".[$(EXTRAS)]"
	touch $@

# constraints.txt, with what constraints-spark4.txt has instead or besides.
$(VENV)/installed-spark4: pyproject.toml constraints.txt constraints-spark4.txt | $(VENV)/bin/python
	grep -v -E "^($$(sed -n 's/==.*//p' constraints-spark4.txt | paste -s -d '|'))==" constraints.txt | cat - constraints-spark4.txt > $(VENV)/constraints.txt
	$(PIP_INSTALL:constraints.txt=$(VENV)/constraints.txt) --editable ".[spark4,examples,test]" "pyspark[connect]"
	touch $@
