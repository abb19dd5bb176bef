# Everything a newcomer needs: `make demo`, `make test`. Nothing outside .venv, stores/ and results/ is written.
PYTHON ?= python3
BIN := .venv/bin
# modules are compiled once and not by each of the many processes
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test soak lint bench gpu audit

install: .venv/.installed

.venv/.installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("mucon needs Python 3.11 or newer: make PYTHON=python3.12 ..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --requirement requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

demo: install
	$(BIN)/python sweeps/ablation_masks.py

test: install
	$(BIN)/python -m pytest --quiet --numprocesses 3 --dist loadgroup

soak: install
	MUCON_SOAK=1 $(BIN)/python -m pytest -m repeated

lint: install
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports

bench: install
	for file in benchmarks/[a-z]*_*.py benchmarks/inference.py; do $(BIN)/python $$file || exit 1; done

gpu: install
	$(BIN)/python benchmarks/gpu.py

# Asks PyPI for known vulnerabilities of the locked versions; a package that the index does not know is an error.
audit: install
	$(PYTHON) -m venv .venv/audit
	.venv/audit/bin/pip install --quiet --disable-pip-version-check pip-audit
	.venv/audit/bin/pip-audit --requirement requirements.lock --no-deps --disable-pip --strict

# Secrets and folders of docker-compose.yml. An existing file is kept: the database knows its password.
# The containers run as the user who makes it; root leaves the user and group of the example, and gives them the folders.
.env:
	mkdir -p stores results
	umask 077 && while IFS= read -r line; do case $$line in \
	  [!#]*=) line=$$line$$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n') ;; \
	  MUCON_UID=*) [ "$$(id -u)" = 0 ] && chown "$${line#*=}" stores results || line=MUCON_UID=$$(id -u) ;; \
	  MUCON_GID=*) [ "$$(id -u)" = 0 ] && chgrp "$${line#*=}" stores results || line=MUCON_GID=$$(id -g) ;; \
	esac; echo "$$line"; done < .env.example > .env.new && mv .env.new $@
