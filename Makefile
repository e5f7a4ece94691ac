# demo:   set up .venv, write the example with planted faults and run the main job on it; opens nothing.
# check:  set up .venv-dev and run what pre-commit runs: format, lint, types, documentation, tests.
# shuffled: the tests of check in three orders, whose seeds are drawn and printed.
# slow:   the tests that check leaves out: attack, browsers, long ones.
# fresh:  twenty data sets drawn by the clock, judged; mutants: 100 changes of the source, noticed or not.
# typed:  every command that the how-tos show, typed as printed; some ten minutes.
# bench:  the quick figures of `python -m bench` again, two seeds each: fails where one has left its interval.
# oldest: set up .venv-oldest with the oldest versions pyproject.toml allows and run check's tests.

PYTHON ?= python3
OUT ?= report

PACKAGE := pyproject.toml README.md $(shell find src -type f -name '*.py')
# The order of the tests, renewed with every larger change: no test may hang on what another left.
SEED ?= 23081
# Two files of tests at a time, each on one thread: half the time of one after the other. The longest
# test, alone in its file, comes first (tests/conftest.py), not last as xdist would have it.
TEST = -m pytest -n 2 --dist loadfile --no-loadscope-reorder --randomly-seed=$(SEED)
# Oldest versions meet neither a browser nor the large data sets, which test the same code again, nor
# commands and pages, which call no library that the others do not.
# scikit-learn 1.5 deals groups over folds by other draws than the figures that are kept.
OTHER_DRAWS := --deselect 'tests/data/test_figures.py::test_how_samples_are_split_stays[arguments]'
OLDEST_TESTS := not slow and not typed and not browser and not real_data
OLDEST := $(addprefix tests/,act collect data estimators lm methods models score store train)

# Else each of the tests' processes compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check lint types docs tests shuffled slow fresh mutants typed bench oldest clean
.DEFAULT_GOAL := check

demo: .venv/installed
	.venv/bin/datassay example digits --out example
	.venv/bin/datassay run example/digits.npz --out $(OUT)

# All but tests is checked beside them; all end, and one that fails fails the whole.
check: .venv-dev/installed
	@$(MAKE) --no-print-directory --keep-going -j 4 lint types docs tests

lint: .venv-dev/installed
	.venv-dev/bin/ruff format --check
	.venv-dev/bin/ruff check

types: .venv-dev/installed
	$(call silent,.venv-dev/bin/pyrefly check --python-interpreter-path .venv-dev/bin/python)

# Not --quiet: with it mkdocs sees no warning, and --strict nothing to fail at.
docs: .venv-dev/installed
	$(call silent,NO_MKDOCS_2_WARNING=1 WITH_SEARCH=false .venv-dev/bin/mkdocs build --strict --site-dir .site)

tests: .venv-dev/installed
	.venv-dev/bin/python $(TEST) -m 'not slow and not typed'

shuffled: .venv-dev/installed
	@for seed in $$(.venv-dev/bin/python -c 'import random; print(*random.sample(range(10**6), 3))'); do \
		echo "make tests SEED=$$seed"; \
		$(MAKE) --no-print-directory tests SEED=$$seed || exit 1; \
	done

# A process that is done takes tests of the other: a few of them take minutes.
slow: .venv-dev/installed
	.venv-dev/bin/python -m pytest -n 2 --dist worksteal -m slow --randomly-dont-reorganize

fresh: .venv-dev/installed
	OMP_NUM_THREADS=1 .venv-dev/bin/python tests/helpers/fresh.py

mutants: .venv-dev/installed
	OMP_NUM_THREADS=1 .venv-dev/bin/python tests/helpers/mutants.py --number 100

typed: .venv-dev/installed
	.venv-dev/bin/python $(TEST) --randomly-dont-reorganize -m typed

# What runs beside the tests says nothing unless it fails.
silent = @text=$$($(1) 2>&1) || { printf '%s\n' '$(1)' "$$text" >&2; exit 1; }

bench: .venv-dev/installed
	.venv-dev/bin/python -m bench check

oldest: .venv-oldest/installed
	MAY_SKIP=without-extras .venv-oldest/bin/python $(TEST) -m '$(OLDEST_TESTS)' $(OLDEST) $(OTHER_DRAWS)

# A variable and not an argument of a function, where make would split at the comma.
.venv/installed: INSTALLED = -c constraints.txt .
.venv-dev/installed: INSTALLED = -c constraints.txt -e '.[dev,docs,features,hf,services]' \
	-e packages/datassay-lab -e 'packages/datassay-exports[dev]'
.venv-oldest/installed: INSTALLED = -c constraints-oldest.txt -e '.[dev]'

.venv/installed: constraints.txt $(PACKAGE)
	$(set_up)

.venv-dev/installed: constraints.txt pyproject.toml $(wildcard packages/*/pyproject.toml)
	$(set_up)

.venv-oldest/installed: constraints-oldest.txt pyproject.toml
	$(set_up)

# Modules are compiled as they are imported: most of what is installed never is.
define set_up
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo 'Error: datassay needs Python 3.11 or newer; name one, as in: make PYTHON=python3.12' >&2; exit 1; }
@echo 'Setting up $(@D); the first time takes some minutes.'
@$(PYTHON) -m venv $(@D)
@$(@D)/bin/python -m pip install --quiet --no-compile $(INSTALLED)
@touch $@
endef

clean:
	rm -rf .venv .venv-dev .venv-oldest .site
