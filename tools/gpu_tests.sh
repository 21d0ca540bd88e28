#!/usr/bin/env bash
# tools/gpu_tests.sh [PYTEST ARGUMENTS...]: the tests that have something to run on a GPU, on the GPUs of this machine.
#
# Files, folders and tests among the arguments are run in place of them all.
#
# Needs a TensorFlow that sees them, pycuda and nvcc; with NCCL and several GPUs ranks get one each, else they share.
# PYTHON: the Python to use (python3). The native libraries must be built (make build). TensorFlow 2 multiplies matrices
# with 10 bits of each number (TF32) where nobody says otherwise: not here, where values are compared with the host's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export SOK1X_TEST_DEVICE=gpu TF_FORCE_GPU_ALLOW_GROWTH=true TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-2}"
export NVIDIA_TF32_OVERRIDE=0
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
folders=(tests/cuda_kernels tests/gpu tests/graph_ops tests/sok1x tests/launch tests/mpi)
# Options alone, as -x, are for these folders.
for given; do [ ! -e "${given%%::*}" ] || folders=(); done
exec "${PYTHON:-python3}" -m pytest -q ${folders[@]+"${folders[@]}"} "$@"
