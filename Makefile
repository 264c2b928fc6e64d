# Ackproof. `make demo` and `make test` do everything on a fresh machine.
PYTHON ?= $(shell infra/python.sh)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DOCS   := $(VENV)/.docs-installed
CLASSES := $(VENV)/.classes
CONNECT := $(VENV)/connect
ENGINE := infra/backends/docker/with-engine.sh

# Else each of some thousand processes compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup programs chromium clients demo test compiled-tests simulate mutation test-long test-random tamper test-jepsen test-kills test-kafka kafka-tests test-clients libraries-tests test-connect test-ssh test-docker test-kubernetes docker-tests kubernetes-tests docker-image image \
        docker-base docker-clean bench bench-quick bench-ready bench-check bench-recording \
        seed004 side-by-side known-losses kafka-mutants kafka-releases reference clients-table docs docs-serve lint nightly clean

help:  ## what there is to make
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(CLASSES)  ## virtual environment, packages, Java, nft, tc, libfaketime

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "ackproof needs Python 3.11 or newer; try: make PYTHON=/path/to/python3.11" >&2; exit 5; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 5; }
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--editable '.[dev]'
	@touch $@

programs:
	@infra/need.sh default-jre-headless infra/java.sh
	@infra/need.sh nftables which nft || \
		echo "without nft, the backend local cannot cut links: ackproof doctor" >&2
	@infra/need.sh iproute2 which tc || \
		echo "without tc, it cannot make them narrow or slow" >&2
	@infra/need.sh libfaketime test -e /usr/lib/*/faketime/libfaketimeMT.so.1 || \
		echo "without libfaketime, it cannot give servers another time" >&2

# Most of a minute, and half the time of each check after it.
$(CLASSES): $(STAMP) | programs
	@echo "preparing the classes of Spark"
	@$(BIN)/python -m ackproof.checkers.engine.spark.class_data
	@touch $@

clients: $(STAMP)  ## programs of client libraries to compare: Java's, franz-go's; fetches and compiles
	$(BIN)/python -m ackproof.infra.clients.builds

demo: setup  ## the quick campaign on this machine; names the tutorial and ends with the path of an HTML report
	$(BIN)/ackproof demo

# For the tests of pages, which are left out without it.
chromium:
	@infra/need.sh chromium which chromium || echo "without Chromium, pages are not looked at"

# Tests wait more than they compute: five at a time, on two cores.
test: $(STAMP) programs chromium  ## lint, types, unit, property, simulation, integration and end-to-end tests
	@$(MAKE) --no-print-directory --jobs 2 --output-sync $(CLASSES) lint compiled-tests
	$(BIN)/pytest --numprocesses 5 --dist loadfile --no-loadscope-reorder --durations 40 --durations-min 10

# In a fresh clone each of the workers would compile all tests: half a minute each. What is wrong
# with a test is told when it is run.
compiled-tests: $(STAMP)
	@$(BIN)/pytest --collect-only -qq >/dev/null 2>&1 || true

simulate: $(STAMP)  ## the broker in simulated worlds, for SECONDS=60 on all cores; 1 if it breaks
	$(BIN)/python -m simulation --seconds $(or $(SECONDS),60) --coordination $(or $(COORDINATION),any)

mutation: setup  ## which broken brokers are found, for docs/detection.md; an hour, continues where it was; CAMPAIGNS=1 adds campaigns
	$(BIN)/python -m tools.mutation --out docs/detection.md $(if $(CAMPAIGNS),--campaigns)

test-long: setup  ## the tests that take too long for make test
	$(BIN)/pytest -m "long and not connect and not docker and not kubernetes and not ssh and not kafka and not libraries"

test-random: setup  ## the property tests with other examples each time, five times as many; prints what failed, to be replayed
	HYPOTHESIS_PROFILE=random $(BIN)/pytest --numprocesses 5 --dist loadfile \
		$$(grep -rlE '@given|RuleBasedStateMachine' tests --include='test_*.py' --exclude-dir=jepsen)

tamper: setup  ## HISTORIES=2000 small histories, damaged at random: each is judged as it is, or not at all
	ACKPROOF_TAMPER=$(or $(HISTORIES),2000) $(BIN)/pytest --numprocesses 2 tests/checkers/test_tampering.py

test-kills: setup  ## kill -9 of the harness at KILLS=100 moments ON="local docker ssh"; minutes each; as root
	ACKPROOF_KILLS=$(or $(KILLS),100) ACKPROOF_KILLS_ON="$(or $(ON),local)" \
		$(if $(findstring docker,$(ON)),$(ENGINE)) $(BIN)/pytest -m kills tests/e2e/test_kills.py

test-jepsen: setup  ## our checkers beside Jepsen's; JEPSEN_CLASSPATH=... names Jepsen and what it needs
	@test -n "$(JEPSEN_CLASSPATH)" || \
		{ echo "JEPSEN_CLASSPATH is empty; docs/checkers.md says what it takes" >&2; exit 5; }
	JEPSEN_CLASSPATH="$(JEPSEN_CLASSPATH)" $(BIN)/pytest -m jepsen

test-kafka: setup  ## the tests that need Apache Kafka's programs or kcat; fetches them; as root, on every backend
	tests/tools/kafka/programs.sh
	$(ENGINE) --or-without $(MAKE) --no-print-directory kafka-tests

# Without root there are no hosts, without an engine no containers: then the rest of them (5: none).
# On nodes one at a time, since what they leave behind is looked for in the whole engine.
kafka-tests libraries-tests:
	@where=; \
	test "$$(id -u)" = 0 || where=" and not ssh"; \
	if $(BIN)/python -m ackproof.infra.backends.docker.engine; \
	then $(MAKE) --no-print-directory docker-image || exit; \
	else where="$$where and not docker"; fi; \
	$(BIN)/pytest -m "$(@:-tests=) and not docker and not kubernetes and not ssh" \
		--numprocesses 2 --dist loadfile --no-loadscope-reorder --durations 20 --durations-min 10 && \
	{ $(BIN)/pytest -m "$(@:-tests=) and (docker or ssh)$$where" || test $$? = 5; }

test-clients: setup clients  ## the tests of client libraries that are compiled here; as root, on every backend
	$(ENGINE) --or-without $(MAKE) --no-print-directory libraries-tests

# Beside the environment: with pandas in it, each process that uses Arrow imports it.
$(CONNECT): $(STAMP)
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--upgrade --target $(CONNECT) $$($(BIN)/python -c 'import tomllib; \
		print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["connect"])')
	@touch $@

test-connect: setup $(CONNECT)  ## checks over Spark Connect, beside those on a standalone master; fetches its packages
	ACKPROOF_CONNECT=$(CONNECT) $(BIN)/pytest -m connect

test-ssh: setup  ## the tests on hosts of their own, made on this machine; as root
	@test "$$(id -u)" = 0 || { echo "test-ssh makes hosts, and needs root for that" >&2; exit 5; }
	$(BIN)/pytest -m "ssh and not kafka and not libraries"

test-docker: setup  ## the tests that need a Docker Engine; installs and starts one if need be
	$(ENGINE) $(MAKE) --no-print-directory docker-image docker-tests

docker-tests:
	$(BIN)/pytest -m "docker and not kafka and not libraries"

test-kubernetes: setup  ## the tests in pods, on the cluster of KUBECONFIG, else on one that is made here; as root
	$(ENGINE) $(MAKE) --no-print-directory kubernetes-tests

# The images of a cluster that KUBECONFIG names are in a registry, and ACKPROOF_KUBERNETES_IMAGE and
# ACKPROOF_TEST_HARNESS_IMAGE name them.
kubernetes-tests: docker-base
	image="$${ACKPROOF_KUBERNETES_IMAGE:-$$($(BIN)/python -m ackproof.infra.backends.docker.image node | tail -n 1)}" && \
	harness="$${ACKPROOF_TEST_HARNESS_IMAGE:-$$($(BIN)/python -m ackproof.infra.backends.docker.image harness | tail -n 1)}" && \
	IMAGE="$$image $$harness" ACKPROOF_KUBERNETES_IMAGE="$$image" ACKPROOF_TEST_HARNESS_IMAGE="$$harness" \
		tests/tools/kubernetes/cluster.sh with $(BIN)/pytest -m kubernetes

docker-image: docker-base  ## the image of a node; BASE=IMAGE makes it from that one
	$(BIN)/python -m ackproof.infra.backends.docker.image node $(BASE)

docker-base: $(STAMP)  ## its base: Debian's, or made by debootstrap where no registry is reached
	@test -n "$(BASE)" || $(BIN)/python -m ackproof.infra.backends.docker.image base

image: docker-base  ## the image of Ackproof itself, ackproof:latest; BASE=IMAGE makes it from that one
	$(BIN)/python -P -m ackproof.infra.backends.docker.image harness $(BASE)

docker-clean: $(STAMP)  ## remove the images, and what dead runs left in the engine
	$(BIN)/python -m ackproof.infra.backends.docker.cleanup

bench: setup bench-ready bench-check bench-recording  ## speed against Apache Kafka, as ratios; fetches it (quarter of an hour)
	PYTHONPATH=. $(BIN)/python -m benchmarks.speed

bench-quick: setup  ## the same with fewer records and repetitions: for a look
	PYTHONPATH=. $(BIN)/python -m benchmarks.speed --quick --repetitions 2

bench-ready: setup  ## the wait for a ready cluster, backend by backend, as ratios (minutes)
	PYTHONPATH=. $(ENGINE) --or-without $(BIN)/python -m benchmarks.ready

bench-check: setup  ## what a check costs beside DuckDB, on histories of 0.1 to 30 M sends (minutes)
	$(BIN)/python -m benchmarks.checking

bench-recording: setup  ## what recording costs a client, beside a bare one, as ratios (minutes)
	PYTHONPATH=. $(BIN)/python -m benchmarks.recording

# One after the other: each takes the machine to itself.
seed004: setup  ## the benchmarks of docs/seed004.md, and their figures on it (two hours); OUT=DIRECTORY
	$(BIN)/python -m ackproof.infra.clients.builds java
	@for one in settings partitions broker-kills latency; do \
		$(BIN)/ackproof run campaigns/seed004-$$one.yaml --yes --out $(or $(OUT),results)/seed004-$$one-$$(date -u +%Y%m%dT%H%M%SZ) || exit; \
	done
	$(BIN)/python docs/seed004.py $(or $(OUT),results)

side-by-side: setup  ## campaigns on the bundled broker and on Apache Kafka, and docs/side-by-side.md of them; an hour
	@for one in quick power-failure zookeeper admin; do \
		$(BIN)/ackproof matrix --systems bundled,kafka:3.9.2,kafka:4.4.0 campaigns/$$one.yaml \
			--seed $(or $(SEED),1) --out $(or $(OUT),results/side-by-side)/$$one; test $$? -le 3 || exit; \
	done
	$(BIN)/python docs/side_by_side.py $(or $(OUT),results/side-by-side)

# What was run is kept below results/known-losses, and not run again. Without a JDK all is run but what
# takes Java's client.
known-losses: setup  ## what releases of Apache Kafka are known to lose, RUNS=1 each; hours, goes on where it was
	-$(BIN)/python -m ackproof.infra.clients.builds java java:4.1.1
	$(BIN)/ackproof known-losses $(STORIES) --runs $(or $(RUNS),1) --out docs/known-losses.md
	$(BIN)/python docs/generate.py

# What was run is kept below results/mutants, and not run again.
kafka-mutants: setup  ## which bugs in Apache Kafka campaigns find, by SEEDS=1; as root; two hours a seed, continues where it was
	-$(BIN)/python -m ackproof.infra.clients.builds java
	$(BIN)/ackproof mutants --seeds $(or $(SEEDS),1) --out $(or $(OUT),docs/kafka-mutants.md)

kafka-releases: setup  ## quick on releases of Apache Kafka, VERSIONS="3.9.2 newest"; all of the table in docs/kafka.md: an hour
	$(BIN)/python docs/kafka_releases.py $(or $(OUT),results/kafka-releases) $(VERSIONS)

reference: $(STAMP)  ## docs/campaigns.md, its JSON Schema, the list of the broker's properties, its messages
	$(BIN)/python docs/generate.py
	$(BIN)/python -m protocol

clients-table: $(STAMP)  ## the table in docs/clients.md, of RESULTS=results/clients-...
	$(BIN)/python docs/clients_table.py $(or $(RESULTS),results/latest)

$(DOCS): $(STAMP)
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--editable '.[docs]'
	@touch $@

docs: $(DOCS)  ## the documentation site, in site/; a broken link or anchor fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(DOCS)  ## the same at http://127.0.0.1:8000, built again when a page changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m protocol --check

nightly: setup  ## every family of faults, with a seed of the day; as root
	$(BIN)/ackproof nightly --seeds $(or $(SEEDS),1)

clean:  ## remove what crashed runs left on this machine
	@test ! -x $(BIN)/ackproof || $(BIN)/ackproof clean
