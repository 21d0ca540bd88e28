#!/usr/bin/env bash
# tools/gpu_sanitize.sh [TOOL...]: runs the kernel tests on a GPU, at small sizes, under compute-sanitizer's tools.
#
# Without arguments memcheck and racecheck; synccheck and initcheck are others. One line for each tool, and what it
# found where it found something; then the exit code is 1. PYTHON: the Python to use, with pycuda and pytest (python3).
# SANITIZE_SECONDS: how long a tool may take (900).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}
[ $# -gt 0 ] || set -- memcheck racecheck

sanitizer=
for candidate in compute-sanitizer "${CUDA_HOME:-/usr/local/cuda}"/bin/compute-sanitizer \
    "${CUDA_HOME:-/usr/local/cuda}"/compute-sanitizer/compute-sanitizer; do
    if command -v "$candidate" >/dev/null; then
        sanitizer=$candidate
        break
    fi
done
[ -n "$sanitizer" ] || { echo "compute-sanitizer was not found: it comes with NVIDIA's CUDA toolkit." >&2; exit 1; }

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export SOK1X_TEST_SMALL=1 SOK1X_TEST_DEVICE=gpu
# Kernels are compiled before, for nvcc has no business under the sanitizer.
"$python" -c "from sok1x.cuda_kernels import gpu; gpu.get(0)" >"$logs/compile" 2>&1 ||
    { tail -n 20 "$logs/compile" >&2; exit 1; }

failed=0
for tool in "$@"; do
    began=$SECONDS
    code=0
    # An API call that fails is PyCUDA's to report: it raises, and the test fails.
    timeout "${SANITIZE_SECONDS:-900}" "$sanitizer" --tool "$tool" --error-exitcode 9 --report-api-errors no \
        --log-file "$logs/$tool" "$python" -m pytest tests/cuda_kernels -q -m "gpu and not slow" -p no:cacheprovider \
        >"$logs/$tool.tests" 2>&1 || code=$?
    tests=$(grep -E '^=*[[:space:]]*[0-9]+ (passed|failed|error)' "$logs/$tool.tests" | tail -n 1 || true)
    found=$(grep -E 'SUMMARY' "$logs/$tool" 2>/dev/null | sed 's/^=* *//' | tail -n 1 || true)
    echo "$tool: exit code $code, ${tests:-no tests ran}; ${found:-no summary}; $((SECONDS - began)) s"
    if [ "$code" -ne 0 ]; then
        failed=1
        grep -vE '^=* *$' "$logs/$tool" 2>/dev/null | head -n 60 || true
        grep -E '^(FAILED|ERROR|E  )' "$logs/$tool.tests" | head -n 40 || true
    fi
done
exit "$failed"
