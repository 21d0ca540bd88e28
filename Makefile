# Every target that needs it makes .venv first; a second call costs a second or two. SOK1X_TENSORFLOW=tensorflow==2.15.1
# has them make and use .venv-2.15.
.DEFAULT_GOAL := help
SHELL := /bin/bash

VENV := $(if $(SOK1X_TENSORFLOW),$(shell SOK1X_TENSORFLOW='$(SOK1X_TENSORFLOW)' tools/tensorflow_choice.sh),.venv)
PYTHON_ENV := $(or $(VENV),$(error see above))/bin/python
DATA := .data/ml-100k
RANKS ?= 2
ARGS ?=
# A test of two ranks waits for one or the other much of the time, so that two tests at a time keep two cores busy.
WORKERS ?= 2

# The TensorFlow of test-tf2: 2.15, or 2.21.
TF ?= 2.15

# Not make's business to run two set-ups at once.
.NOTPARALLEL:
.PHONY: help env env-tests build data demo check docs lint test test-tf2 test-slow test-hosts test-sanitized test-gpu \
    test-gpu-sanitized wheel bench bench-gpu clean distclean

help: ## List these targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'
	@echo
	@echo "  RANKS=n      processes of demo and check (2);   ARGS='...' is passed on to demo, test and bench"
	@echo "  WORKERS=n    tests that test runs at a time (2; 0: in one process)"
	@echo "  PYTHON=path  the Python 3.7 to use, where it is not found by itself"
	@echo "  SOK1X_TENSORFLOW=tensorflow==2.15.1   another TensorFlow, in an environment of its own (.venv-2.15)"
	@echo "  TF=2.21      test-tf2: a smoke test on that TensorFlow;   SELECTION=ci   what .ci/run runs on 2.15"

env: ## Make .venv (or .venv-2.15: see below): packages, Open MPI where missing (as root), and sok1x built in place
	@tools/setup_env.sh

env-tests: ## The same with Horovod, which tests and benchmarks use
	@tools/setup_env.sh horovod

build: env ## Build again what has changed of the op and the host kernels

data: env ## Fetch MovieLens-100k into .data/
	@$(PYTHON_ENV) legacy_examples/movielens.py $(DATA)

demo: data ## Train a click model on MovieLens-100k with mpiexec
	@TF_CPP_MIN_LOG_LEVEL=$${TF_CPP_MIN_LOG_LEVEL:-2} PYTHONWARNINGS=$${PYTHONWARNINGS:-ignore} \
	    tools/mpiexec.sh $(RANKS) $(PYTHON_ENV) legacy_examples/demo.py $(ARGS)

check: env ## Look over this installation: versions, devices, MPI, one exchange
	@tools/mpiexec.sh $(RANKS) $(PYTHON_ENV) -m sok1x.check $(ARGS)

docs: env ## Build the pages of docs/ as a site in build/docs; fails on a broken link
	@$(PYTHON_ENV) -W ignore tools/build_docs.py

lint: env ## Check style (ruff) and types (mypy)
ifeq ($(VENV),.venv)
	@$(PYTHON_ENV) -m ruff check .
	@$(PYTHON_ENV) -m mypy
else
	@echo "style and types are checked with TensorFlow 1.15's set-up: make lint without SOK1X_TENSORFLOW"
endif

test: env-tests lint data ## Set up, check style and types, run the tests, on TensorFlow 1.15
	@$(PYTHON_ENV) -m pytest -m "not slow" -n $(WORKERS) --dist worksteal $(ARGS)

test-tf2: ## Set up TensorFlow 2.15 in .venv-2.15 and run the tests there; TF=2.21: a smoke test in .venv-2.21
	@tools/tf2_tests.sh $(TF) $(or $(SELECTION),all) $(WORKERS) $(ARGS)

test-slow: env-tests data ## Run the tests that take long, beside faster ones that test nearly as much
	@$(PYTHON_ENV) -m pytest -m slow $(ARGS)

test-hosts: env-tests data ## Run ranks on several hosts, network namespaces of this machine (as root; ARGS="-m slow": long faults)
	@$(PYTHON_ENV) -m pytest tests/hosts $(if $(ARGS),,-m "not slow") $(ARGS)

test-sanitized: env-tests ## Run the kernel tests on the host under g++'s address and undefined sanitizers (minutes to compile)
	@PYTHON=$(CURDIR)/$(PYTHON_ENV) tools/host_sanitize.sh $(ARGS)

test-gpu: env-tests ## Run the tests that have something to run on a GPU (needs a TensorFlow with GPUs, pycuda, nvcc)
	@PYTHON=$(CURDIR)/$(PYTHON_ENV) tools/gpu_tests.sh $(ARGS)

test-gpu-sanitized: env-tests ## Run the kernel tests on a GPU, at small sizes, under compute-sanitizer (needs pycuda, nvcc)
	@PYTHON=$(CURDIR)/$(PYTHON_ENV) tools/gpu_sanitize.sh $(ARGS)

bench: env-tests ## Measure lookups, many tables, a whole model, growing tables, DCNv2, serving against stock TensorFlow, Horovod and dd; writes benchmarks/results/
	@CUDA_VISIBLE_DEVICES= $(PYTHON_ENV) benchmarks/embedding.py $(ARGS)
	@CUDA_VISIBLE_DEVICES= $(PYTHON_ENV) benchmarks/optimizers.py
	@CUDA_VISIBLE_DEVICES= $(PYTHON_ENV) benchmarks/checkpoint.py
	@CUDA_VISIBLE_DEVICES= $(PYTHON_ENV) benchmarks/many_tables.py
	@CUDA_VISIBLE_DEVICES= $(PYTHON_ENV) benchmarks/many_tables.py --sparse
	@CUDA_VISIBLE_DEVICES= $(PYTHON_ENV) benchmarks/dlrm.py
	@CUDA_VISIBLE_DEVICES= $(PYTHON_ENV) benchmarks/dynamic.py
	@CUDA_VISIBLE_DEVICES= $(PYTHON_ENV) benchmarks/dcnv2.py
	@CUDA_VISIBLE_DEVICES= $(PYTHON_ENV) benchmarks/serving.py

bench-gpu: env-tests ## Measure on GPUs: lookups and steps, optimizers, checkpoints, the hash table, scaling, many tables, a whole model, growing tables, DCNv2; writes benchmarks/results/
	@$(PYTHON_ENV) benchmarks/gpu_embedding.py $(ARGS)
	@$(PYTHON_ENV) benchmarks/optimizers.py $(ARGS)
	@$(PYTHON_ENV) benchmarks/checkpoint.py $(ARGS)
	@$(PYTHON_ENV) benchmarks/gpu_hash.py $(ARGS)
	@$(PYTHON_ENV) benchmarks/gpu_scaling.py $(ARGS)
	@$(PYTHON_ENV) benchmarks/many_tables.py $(ARGS)
	@$(PYTHON_ENV) benchmarks/many_tables.py --sparse $(ARGS)
	@$(PYTHON_ENV) benchmarks/dlrm.py $(ARGS)
	@$(PYTHON_ENV) benchmarks/dynamic.py $(ARGS)
	@$(PYTHON_ENV) benchmarks/dcnv2.py $(ARGS)

wheel: env ## Make dist/sok1x-….whl from the sources: what it installs compiles itself for the TensorFlow it finds
	@$(PYTHON_ENV) setup.py -q source_wheel
	@ls dist/*.whl

clean: ## Remove what was built; .venv and .data stay
	@rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	@find graph_ops cuda_kernels launch sok1x tests tools legacy_examples benchmarks \
	    \( -name '*.so' -o -name __pycache__ \) -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## Remove .venv, those of TensorFlow 2 and .data too
	@rm -rf .venv .venv-* .data
