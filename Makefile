# Every target sets up what it needs; a second set-up with an unchanged lock returns at once.
PYTHON ?= python3
ENV ?= cpu
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help setup run test smoke proof ablation ui bench lint types lock clean

help:  ## What there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup:  ## Make .venv from the lock (ENV=gpu for NVIDIA machines, ENV=control for servers and flows only)
	@$(PYTHON) scripts/setup_env.py $(ENV)

run: setup  ## The whole pipeline with params.yaml: papers to judged model
	@python -m flows.run

smoke: setup  ## The whole pipeline with profiles/smoke.yaml, in a copy under .smoke/
	@python scripts/smoke.py

test: setup  ## All tests
	@python -m pytest

proof: setup  ## Slow proofs: kills at random moments, other machines, a browser, DVC experiments (RLM_KILLS=20)
	@python -m pytest -m proof

ablation: setup  ## Ways to credit children, and simpler training, at one budget of sampled tokens (hours)
	@python -m flows.ablation

ui: setup  ## MLflow and Prefect with the served flows
	@python -m flows.ui

bench: setup  ## The benchmarks, as a table of ratios
	@python -m benchmarks

lint: setup  ## Style
	@ruff check . && ruff format --check .

types: setup  ## Types
	@mypy

lock:  ## Make the locks again from requirements/*.in (needs network)
	@$(PYTHON) -m venv .cache/uv && .cache/uv/bin/pip install -q uv
	@cd requirements && ../.cache/uv/bin/uv pip compile -q cpu.in --override overrides.txt -o cpu.txt \
		--python-version 3.11 --no-header --no-annotate $(UV_ARGS)
	@cd requirements && ../.cache/uv/bin/uv pip compile -q gpu.in --override gpu-overrides.txt -o gpu.txt \
		--python-version 3.11 --python-platform x86_64-manylinux_2_28 --no-header --no-annotate
	@cd requirements && ../.cache/uv/bin/uv pip compile -q control.in --override overrides.txt --constraint cpu.txt \
		-o control.txt --python-version 3.11 --no-header --no-annotate $(UV_ARGS)

clean:  ## Remove caches and outputs of stages (not the environment)
	@rm -rf .cache .smoke data models reports
