#!/usr/bin/env bash
# tools/host_sanitize.sh [TESTS...]: runs the kernel tests on the host under g++'s address and undefined sanitizers.
#
# In a copy of the checkout, whose host kernels are compiled so (some minutes): what is installed stays as it is. The
# first access outside of memory, or operation that C++ does not define, ends the run; so does a test that fails. TESTS:
# files and options for pytest (tests/cuda_kernels). PYTHON: the Python to use, with sok1x's packages (.venv's).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-$PWD/.venv/bin/python}
folders=(tests/cuda_kernels)
# Options alone, as -x, are for this folder.
for given; do [ ! -e "${given%%::*}" ] || folders=(); done

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z | tar --null -T - -cf - | tar -xf - -C "$copy"
cd "$copy"
compiler=${CXX:-g++}
CXX="$compiler -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all" \
    "$python" cuda_kernels/build_host.py
# Python itself is not compiled so: the sanitizers' libraries must be there before it, and what it keeps is no leak.
export LD_PRELOAD="$("$compiler" -print-file-name=libasan.so) $("$compiler" -print-file-name=libubsan.so)"
export ASAN_OPTIONS=detect_leaks=0:alloc_dealloc_mismatch=0 UBSAN_OPTIONS=print_stacktrace=1
export PYTHONPATH=$copy SOK1X_TEST_DEVICE=host
# -s: what a sanitizer says is not to be lost. Of nvcc's tests there is nothing to see, and it does not run beside them.
"$python" -m pytest -q -s -m "not slow" -p no:cacheprovider --deselect tests/cuda_kernels/test_cuda_kernels_nvcc.py \
    ${folders[@]+"${folders[@]}"} "$@"
