# Every target works on a fresh machine that has Python 3.11 or newer, make and git.
PYTHON ?= python3
BIN := .venv/bin
# Files that hold what is installed, so that a set-up that is up to date costs nothing.
RUN_READY := .venv/.run-ready
TEST_READY := .venv/.test-ready
PYPAIMON_READY := .venv/pypaimon/.ready
PYICEBERG_READY := .venv/pyiceberg/.ready
PEERS_READY := .venv/peers/.ready
BROWSER_READY := .venv/browser/.ready
SITE_READY := .venv/site/.ready
KAFKA_READY := .venv/kafka/.ready
# A server that speaks S3, built from source; VERSITYGW_HOME for another place than .venv.
VERSITYGW := v1.8.0
VERSITYGW_HOME ?= .venv/versitygw
VERSITYGW_READY := $(VERSITYGW_HOME)/.ready-$(VERSITYGW)
JAVA := .venv/java
# The version of Java Paimon that tests read and write with: 1.4.2, 1.3.1, 1.0.1, or 0.8.2, which only writes.
PAIMON ?= 1.4.2
JAVA_READY := $(JAVA)/.ready-$(PAIMON)
# Hundreds of processes begin in a run of the tests: where Python shall keep nothing, each would compile all again.
export PYTHONDONTWRITEBYTECODE :=
# The certificates of the system are asked, as pip does: companies have proxies with certificates of their own.
UV := $(BIN)/uv --quiet --system-certs

# A test starts where a core is free; more than four Spark sessions at once need too much memory.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal

# What a contributor runs, room by room, and what takes as long again. `make browser` runs those in a browser.
ROOMS := tests/house tests/contracts tests/storage tests/lineage tests/engines tests/resources tests/lineage_browser
# `make interleavings` tries all of them, and stops at every second call; AMOUNT=usual a share.
AMOUNT ?= full
PAIRS := tests/interleavings/test_pairs.py tests/interleavings/test_triples.py
BESIDE := tests/storage/test_written_while_published.py tests/storage/test_renamed_and_back.py
# What takes longest in the rooms: it is run with the rest.
LONG := tests/resources/test_recovery_through_dagster.py tests/resources/test_recovery_dropped_twice.py \
  tests/resources/test_recovery_plans.py tests/resources/test_recovery_pairs.py tests/resources/test_reproduce.py \
  tests/resources/test_renewed_streams.py tests/resources/test_row_metadata_alike.py tests/resources/test_secrets.py \
  tests/resources/test_recovery.py tests/resources/test_recovery_refusals.py tests/resources/test_asset_rows.py \
  tests/resources/test_tpch.py tests/engines/test_stream.py tests/engines/test_stream_sinks.py tests/storage/test_isolation.py \
  tests/engines/test_merge_into.py tests/resources/test_sql_row_metadata.py tests/lineage_browser/test_mounted.py \
  tests/lineage/test_life_cycle.py tests/lineage_browser/test_damage.py tests/contracts/test_versitygw_sql.py \
  tests/resources/test_sql_outside.py tests/lineage_browser/test_actions.py tests/lineage_browser/test_facts.py \
  tests/lineage_browser/test_links.py tests/storage/test_branch_sets.py tests/storage/test_hostile_metadata.py \
  tests/storage/test_hostile_fuzz.py tests/contracts/test_versitygw_faults.py
REST := tests/kafka tests/crash tests/model tests/interleavings tests/interop tests/platform_assets

.PHONY: help demo ui test interleavings test-rest test-all test-full test-long java interop browser pictures lint measure benchmark locks docs site sbom clean kafka versitygw test-cluster kafka-demo

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-14s %s\n", $$1, $$2}'

demo: $(RUN_READY) ## Set everything up, materialize the whole demo through Dagster, say what happened
	@$(BIN)/snapline demo

ui: $(RUN_READY) ## Open the Dagster UI on 127.0.0.1:3000
	@$(BIN)/snapline ui

test: $(TEST_READY) $(PYPAIMON_READY) $(PYICEBERG_READY) ## Set everything up and run the tests that a change needs
	@$(PYTEST) $(ROOMS) $(addprefix --ignore=,$(LONG) $(BESIDE))

test-rest: $(TEST_READY) $(PYPAIMON_READY) $(PYICEBERG_READY) ## Run the others: crashes, random histories, other readers, the demo's stories
	@$(PYTEST) $(REST) $(LONG) $(addprefix --ignore=,$(PAIRS))

test-all: test test-rest test-cluster interleavings ## Run all of them

test-full: $(TEST_READY) $(PYPAIMON_READY) $(PYICEBERG_READY) ## Run all tests with more of what is random
	@SNAPLINE_TEST_AMOUNT=full $(PYTEST) --ignore=tests/cluster

interleavings: $(TEST_READY) ## Stop every operation at each of its steps beside every other one: all pairs on local files
	@SNAPLINE_TEST_AMOUNT=$(AMOUNT) $(PYTEST) $(PAIRS) $(BESIDE)

test-long: $(TEST_READY) $(PYPAIMON_READY) $(PYICEBERG_READY) ## Run the random and the crash tests for hours (SNAPLINE_TEST_SEED=n for one seed)
	@SNAPLINE_TEST_AMOUNT=long $(PYTEST) tests/crash tests/interleavings tests/model tests/storage/test_hostile_fuzz.py tests/resources/test_sql_corpus.py tests/resources/test_sql_changes.py

test-cluster: $(TEST_READY) versitygw ## Run a platform on several hosts: Spark, PostgreSQL, an object store, two code locations; a few minutes
	@$(BIN)/python -m pytest tests/cluster

java: $(JAVA_READY) ## Build what runs Java Paimon in the tests; needs mvn and a JDK (PAIMON=1.0.1 for a version)

kafka: $(KAFKA_READY) ## Fetch a Kafka broker for the tests; needs mvn and Java 17 or newer

versitygw: $(VERSITYGW_READY) ## Build a server that speaks S3 for the tests of object stores; needs Go 1.21 or newer

kafka-demo: $(TEST_READY) $(KAFKA_READY) ## Stream the flights of a day from a topic into a table with a log, and on into a mart
	@$(BIN)/python -m tests.kafka.demo

interop: $(TEST_READY) $(PYPAIMON_READY) $(PYICEBERG_READY) $(JAVA_READY) ## Build it and try the format against Java Paimon and pypaimon
	@SNAPLINE_TEST_PAIMON=$(PAIMON) $(PYTEST) tests/interop

# ONLY=by_clicks for the story without its variants.
browser: $(TEST_READY) $(BROWSER_READY) ## Tell the story of a recovery by clicks in the UI; needs chromium
	@$(BIN)/python -m pytest tests/browser -k '$(ONLY)'

pictures: $(TEST_READY) $(BROWSER_READY) ## Tell it on all flights and write its pictures into docs/images; needs chromium
	@$(BIN)/python -m tests.browser.pictures

lint: $(TEST_READY) ## Check style and types
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

# LIST=--list for where each counted thing stands.
measure: ## Count what makes the packages hard to read: long files and functions, hidden imports, missing docstrings
	@$(PYTHON) -m tests.house.measure $(LIST)

benchmark: $(TEST_READY) $(PYPAIMON_READY) $(PEERS_READY) ## Measure against plain Parquet and peers, write docs/benchmarks.md
	@$(BIN)/python -m tests.benchmarks

COMPILE := $(UV) pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header
locks: .venv/bin/uv ## Resolve the dependencies anew (UPGRADE=--upgrade takes newer versions)
	@$(COMPILE) $(UPGRADE) pyproject.toml --extra platform --group build -o requirements.lock >/dev/null
	@$(COMPILE) $(UPGRADE) pyproject.toml --all-extras --group build -o requirements-extras.lock >/dev/null
	@$(COMPILE) $(UPGRADE) pyproject.toml --extra platform --group build --group test --group lint -o requirements-dev.lock >/dev/null
	@$(COMPILE) $(UPGRADE) --group peers -o requirements-peers.lock >/dev/null
	@$(COMPILE) $(UPGRADE) --group pypaimon -o requirements-pypaimon.lock >/dev/null
	@$(COMPILE) $(UPGRADE) --group pyiceberg -o requirements-pyiceberg.lock >/dev/null
	@$(COMPILE) $(UPGRADE) --group browser -o requirements-browser.lock >/dev/null
	@$(COMPILE) $(UPGRADE) --group docs -o requirements-docs.lock >/dev/null

docs: $(TEST_READY) ## Generate docs/options.md and docs/cli.md
	@$(BIN)/python -m tests.house.generate_docs

site: $(SITE_READY) ## Build the documentation as a site, with the reference of the front doors: dist/site
	@# Without a word of progress `--strict` would miss warnings: they are shown if there are any.
	@mkdir -p dist; NO_MKDOCS_2_WARNING=1 .venv/site/bin/mkdocs build --strict --config-file docs/site/mkdocs.yml \
	  --site-dir $(abspath dist)/site >dist/site.log 2>&1 || { cat dist/site.log >&2; exit 1; }

sbom: ## Write what is installed, from the lock files, as CycloneDX: dist/snapline.cdx.json
	@$(PYTHON) -m tests.house.generate_sbom dist/snapline.cdx.json

clean: ## Remove the environment and all state
	rm -rf .venv .snapline

.venv/bin/uv: requirements-uv.lock
	@echo "Creating .venv"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock
	@touch $@

$(RUN_READY): .venv/bin/uv requirements.lock pyproject.toml
	@echo "Installing the platform into .venv"
	@$(UV) pip install --python $(BIN)/python --require-hashes -r requirements.lock
	@$(UV) pip install --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@echo "Archiving the classes that Spark starts with"
	@$(BIN)/python -m resources.archive_classes
	@touch $@

$(TEST_READY): $(RUN_READY) requirements-dev.lock
	@echo "Installing the tools for tests into .venv"
	@$(UV) pip install --python $(BIN)/python --require-hashes -r requirements-dev.lock
	@touch $@

$(PEERS_READY): .venv/bin/uv requirements-peers.lock
	@echo "Installing what is compared with into .venv/peers"
	@$(UV) venv --allow-existing --python $(BIN)/python .venv/peers
	@$(UV) pip install --python .venv/peers/bin/python --require-hashes -r requirements-peers.lock
	@touch $@

# What Maven brings stays below .venv as well.
$(JAVA_READY): tests/interop/java/pom.xml $(wildcard tests/interop/java/src/main/java/snapline/*.java)
	@command -v mvn >/dev/null || { echo "Java Paimon needs Maven and a JDK: apt-get install maven default-jdk-headless" >&2; exit 1; }
	@echo "Building what runs Java Paimon $(PAIMON) into $(JAVA)"
	@mkdir -p $(JAVA)
	@mvn --quiet --batch-mode -Dstyle.color=never -f tests/interop/java/pom.xml -Dmaven.repo.local=$(abspath $(JAVA))/m2 \
	  -Dout=$(abspath $(JAVA)) -Dpaimon.version=$(PAIMON) package
	@touch $@

$(KAFKA_READY): tests/kafka/broker/pom.xml
	@command -v mvn >/dev/null || { echo "A Kafka broker needs Maven and Java: apt-get install maven default-jdk-headless" >&2; exit 1; }
	@echo "Fetching a Kafka broker into .venv/kafka"
	@mkdir -p .venv/kafka
	@mvn --quiet --batch-mode -Dstyle.color=never -f tests/kafka/broker/pom.xml -Dmaven.repo.local=$(abspath .venv/kafka)/m2 \
	  -Dout=$(abspath .venv/kafka) package
	@touch $@

# Go checks what it fetches against its database of checksums. The sources go again: they are a gigabyte.
$(VERSITYGW_READY):
	@command -v go >/dev/null || { echo "versitygw needs Go 1.21 or newer: apt-get install golang-go" >&2; exit 1; }
	@echo "Building versitygw $(VERSITYGW) into $(VERSITYGW_HOME)"
	@mkdir -p $(VERSITYGW_HOME)
	@cd $(VERSITYGW_HOME) && GOBIN=$$PWD GOPATH=$$PWD/go GOCACHE=$$PWD/go/cache GOFLAGS=-modcacherw CGO_ENABLED=0 GOTOOLCHAIN=auto \
	  go install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW) && rm -rf go
	@touch $@

$(PYPAIMON_READY): .venv/bin/uv requirements-pypaimon.lock
	@echo "Installing pypaimon into .venv/pypaimon"
	@$(UV) venv --allow-existing --python $(BIN)/python .venv/pypaimon
	@$(UV) pip install --python .venv/pypaimon/bin/python --require-hashes -r requirements-pypaimon.lock
	@touch $@

$(PYICEBERG_READY): .venv/bin/uv requirements-pyiceberg.lock
	@echo "Installing pyiceberg into .venv/pyiceberg"
	@$(UV) venv --allow-existing --python $(BIN)/python .venv/pyiceberg
	@$(UV) pip install --python .venv/pyiceberg/bin/python --require-hashes -r requirements-pyiceberg.lock
	@touch $@

$(SITE_READY): .venv/bin/uv requirements-docs.lock
	@echo "Installing what makes the documentation's site into .venv/site"
	@$(UV) venv --allow-existing --python $(BIN)/python .venv/site
	@$(UV) pip install --python .venv/site/bin/python --require-hashes -r requirements-docs.lock
	@touch $@

# Playwright alone: the browser is the system's.
$(BROWSER_READY): .venv/bin/uv requirements-browser.lock
	@command -v chromium >/dev/null || { echo "The tests of the UI need Chromium: apt-get install chromium" >&2; exit 1; }
	@echo "Installing Playwright into .venv/browser"
	@$(UV) venv --allow-existing --python $(BIN)/python .venv/browser
	@$(UV) pip install --python .venv/browser/bin/python --require-hashes -r requirements-browser.lock
	@touch $@
