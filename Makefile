# Every target sets up what it needs first; done once, that costs nothing.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup setup-broker setup-judge demo dev connect lab story-fx story-rewind story-healing generated faults kills simulate storm tally test test-long test-stories test-all test-fast check resolve format mutants pins golden picture letter screenshots first-hour bench bench-quick bench-killed clean

# Compiled once, not by each of the processes that demos, stories and runs start.
export PYTHONDONTWRITEBYTECODE :=

UV_VERSION := 0.13.8
BIN := .venv/bin
UV := .cache/bootstrap/bin/uv
PACKAGES := .venv/.synced
JARS := .cache/jars/.complete
ARCHIVE := .cache/class-archive/.made
BROKER := .cache/broker/.complete
JUDGE := .cache/porcupine/.built
PEERS := .cache/bench/venv/.synced
KILLED_PEERS := .cache/bench/killed/.synced
DEALT := --dist loadfile --no-loadscope-reorder
IN_TWO := -n 2 $(DEALT)
# Tests wait for Spark and for processes that they start: on two cores, a third process of tests has work meanwhile.
IN_THREE := -n $(or $(PROCESSES),3) $(DEALT)
STORIES := test_story_fx test_docs_commands test_campaign test_polling_reader test_tally

find_python = for python in python3 python3.12 python3.11; do \
	"$$python" -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' \
		>/dev/null 2>&1 && break || python=; \
	done; \
	[ -n "$$python" ] || { echo "Python 3.11 or 3.12 with its venv module was not found: install it" \
		"(Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python@3.12)." >&2; exit 1; }

help: ## list the targets
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

setup: $(ARCHIVE) ## the virtual environment from uv.lock, Spark's JARs, and what lets Spark start sooner

setup-broker: $(BROKER) ## the Kafka broker that tests and benchmarks of the stream start; only they need it

setup-judge: $(JUDGE) ## the judge of what is linearizable, built with Go where there is one; only tests need it

demo: setup ## 90 real days from landed files to revenue in a native Dagster backfill
	@$(BIN)/backfill demo

dev: setup ## the Dagster UI on http://127.0.0.1:3000 (PORT=3100: there), and one Spark that its runs share
	@exec $(BIN)/backfill dev $(or $(PORT),3000)

connect: setup ## a Spark Connect server that runs with SPARK_REMOTE share
	@$(BIN)/python -m backfill_assets.spark.connect_server

lab: setup ## play the five hazards of a backfill, and write docs/lab again
	@$(BIN)/backfill lab all --pages docs/lab

test: setup setup-broker setup-judge ## every promise at a small size, in three processes (PROCESSES=2: in two, with less memory)
	@$(BIN)/pytest $(IN_THREE) -m "not long"

test-long: setup setup-broker setup-judge ## what `make test` leaves out: stories in full size, kills, clusters
	@$(BIN)/pytest $(IN_TWO) -m long

test-stories: setup setup-broker ## of those, the stories that are played before a change is taken
	@$(BIN)/pytest $(IN_TWO) -m long $(STORIES:%=backfill_assets_tests/stories/%.py)

test-all: test test-long ## every test there is

test-fast: setup ## the tests that need no JVM, in seconds
	@$(BIN)/pytest -m fast

check: setup ## formatting, lint, types, import rules, pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m backfill_assets_tests.house

resolve: $(UV) ## resolve the ranges of pyproject.toml at their lowest and at their newest, without installing
	@for versions in lowest-direct highest; do \
		env -u VIRTUAL_ENV UV_PYTHON_DOWNLOADS=never $(UV) pip compile --quiet --upgrade --all-extras --no-header --no-annotate \
			--python .cache/bootstrap/bin/python --resolution $$versions --output-file .cache/$$versions.txt pyproject.toml; \
		echo "$$versions: $$(wc -l < .cache/$$versions.txt) packages in .cache/$$versions.txt"; \
	done

format: setup ## put the code into shape
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

story-fx: setup ## the 90-day case on real data: plan, waves, difference, approval, undo; against pandas; then in several currencies
	@$(BIN)/pytest -q -s backfill_assets_tests/stories/test_story_fx.py backfill_assets_tests/stories/test_difference.py

story-rewind: setup ## 60 real days, of which 41 go wrong: rewind, forward twice, compare, publish, undo; killed at every step
	@$(BIN)/pytest -q -s backfill_assets_tests/stories/test_story_rewind.py backfill_assets_tests/stories/test_killed_rewind.py

story-healing: setup ## faults of each kind on real data, in Dagster's own processes, alone and at once: half an hour
	@$(BIN)/pytest -q -s -m long backfill_assets_tests/stories/test_story_healing.py

generated: setup ## the generated tests with many more examples than `make test` draws: EXAMPLES=20 times as many
	@EXAMPLES=$(or $(EXAMPLES),20) $(BIN)/pytest $(IN_TWO) -m "hypothesis and not long"

faults: setup ## each call of each operation goes wrong in each way, and the power fails: FAULTS=rollback, FAULTS="rollback:17?l"
	@$(BIN)/python -m backfill_assets_tests.simulator.faults "$(or $(FAULTS),all)" --pairs 200 --cuts 3

kills: setup ## the cut-over killed at every step and at 100 random moments
	@BACKFILL_RANDOM_KILLS=100 $(BIN)/pytest -q -s -m long backfill_assets_tests/stories/test_killed_cut_over.py

simulate: setup ## everybody on one lakehouse in memory, in an order that a seed gives: SEED=7, SEEDS=500, STEPS=1500, ACTORS="publisher undo", TURNS=...
	@$(BIN)/python -m backfill_assets_tests.simulator --seed $(or $(SEED),1) --seeds $(or $(SEEDS),$(if $(SEED),1,500)) \
		--steps $(or $(STEPS),1500) --actors "$(ACTORS)" --turns "$(TURNS)"

storm: setup setup-judge ## processes that work on one lakehouse at once and are killed: SECONDS=180, ACTORS="publisher reader", STORM="--s3 --json --seed 7"
	@$(BIN)/python -m backfill_assets_tests.storm --seconds $(or $(SECONDS),180) --actors "$(ACTORS)" $(STORM)

tally: setup setup-broker ## a stream, backfills, Dagster's daemon and a campaign on the same days, all killed: SECONDS=300, TALLY="--days 30 --json"
	@$(BIN)/python -m backfill_assets_tests.stream.tally --seconds $(or $(SECONDS),300) $(TALLY)

mutants: setup ## break each invariant once: every break must make a test fail
	@$(BIN)/python -m backfill_assets_tests.mutants

pins: setup ## pin the logic of new versions, write docs/reference: the rules, and the schema of plan files; RENEW="bronze_sales@v1" renews a pin
	@$(BIN)/python -m backfill_assets_tests.quality.quality_page
	@$(BIN)/python -m backfill_assets_tests.campaign.schema_page
	@$(BIN)/python -m backfill_assets_tests.state.diagnosis_page
	@$(BIN)/python -m backfill_assets_tests.examples.datasets.source_pins --renew $(RENEW)

golden: setup ## write again what each command prints, as backfill_assets_tests/cli/golden_files keeps it
	@$(BIN)/python -m backfill_assets_tests.cli.golden

picture: setup ## draw the layers in docs/architecture.md again, from the imports
	@$(BIN)/python -m backfill_assets_tests.import_picture

letter: setup ## take the picture of the letter in the README again: eight real days are built, planned and staged
	@env -u VIRTUAL_ENV UV_PYTHON_DOWNLOADS=never $(UV) sync --frozen --quiet --inexact --group screenshots
	@$(BIN)/python docs/screenshots/take_letter.py

screenshots: setup ## take the pictures of the UI in docs/ again, in Chromium (CHROMIUM names another than /usr/bin/chromium)
	@env -u VIRTUAL_ENV UV_PYTHON_DOWNLOADS=never $(UV) sync --frozen --quiet --inexact --group screenshots
	@$(BIN)/python docs/screenshots/take.py
	@$(BIN)/python docs/screenshots/take_campaign.py
	@$(BIN)/python docs/screenshots/take_letter.py
	@$(BIN)/python docs/screenshots/take_stream.py
	@$(BIN)/python docs/screenshots/take_timelines.py
	@$(BIN)/python docs/screenshots/draw_rewind.py

first-hour: setup ## play a new user's first hour in Chromium, and fail where a page does not say what it should
	@env -u VIRTUAL_ENV UV_PYTHON_DOWNLOADS=never $(UV) sync --frozen --quiet --inexact --group screenshots
	@$(BIN)/python docs/screenshots/first_hour.py

bench: setup setup-broker $(PEERS) ## measure a backfill beside its goals, hand-written Spark, SQLMesh and DuckDB: hours
	@$(BIN)/python -m benchmarks.backfill

bench-quick: setup setup-broker $(PEERS) ## the same on little data, in under 10 minutes
	@$(BIN)/python -m benchmarks.backfill --quick

bench-killed: setup setup-judge $(KILLED_PEERS) ## kill rewrites of several tables, here and with other tools, and judge what readers saw: KILLS=40
	@$(BIN)/python -m benchmarks.killed --kills $(or $(KILLS),40)

clean: ## remove what set-up, checks and tests made; .data (lakehouse, landing, Dagster's memory) stays
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(UV): Makefile
	@$(find_python); "$$python" -m backfill_assets.spark.java; \
	echo "Preparing uv $(UV_VERSION) ..."; \
	"$$python" -m venv --clear .cache/bootstrap; \
	.cache/bootstrap/bin/python -m pip install --quiet --disable-pip-version-check "uv==$(UV_VERSION)"; \
	touch $@

$(PACKAGES): pyproject.toml uv.lock $(UV)
	@echo "Installing the locked packages into .venv ..."
	@env -u VIRTUAL_ENV UV_PYTHON_DOWNLOADS=never $(UV) sync --frozen --quiet --compile-bytecode --python .cache/bootstrap/bin/python
	@touch $@

$(JARS): spark_conf/jars.lock $(PACKAGES)
	@$(BIN)/python -m backfill_assets.spark.java
	@$(BIN)/python -m backfill_assets.spark.jars
	@touch $@

$(ARCHIVE): $(JARS)
	@echo "Archiving Spark's classes, so that it starts sooner (a minute; up to five on a busy machine) ..."
	@$(BIN)/python -m backfill_assets.spark.archive_classes
	@touch $@

$(BROKER): backfill_assets_tests/stream/broker.lock $(JARS)
	@echo "Fetching the Kafka broker of the tests into .cache/broker ..."
	@$(BIN)/python -m backfill_assets_tests.stream.broker_jars
	@touch $@

$(JUDGE): $(wildcard backfill_assets_tests/simulator/judges/porcupine/*) $(PACKAGES)
	@$(BIN)/python -m backfill_assets_tests.simulator.judges
	@mkdir -p $(@D) && touch $@

# One recipe for the two environments of peers, beside the project's own.
define install_peers
	@echo "Installing the benchmark's peers into $(@D) ..."
	@env -u VIRTUAL_ENV UV_PYTHON_DOWNLOADS=never $(UV) venv --quiet --clear --python .cache/bootstrap/bin/python $(@D)
	@env -u VIRTUAL_ENV $(UV) pip sync --quiet --compile-bytecode --python $(@D)/bin/python $<
	@touch $@
endef

$(PEERS): benchmarks/backfill/peers.txt $(UV)
	$(install_peers)

$(KILLED_PEERS): benchmarks/killed/peers.txt $(UV)
	$(install_peers)
