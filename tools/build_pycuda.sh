#!/usr/bin/env bash
# tools/build_pycuda.sh PYTHON FOLDER: builds the wheel of requirements-gpu.txt's pycuda for that Python.
#
# The headers are taken from the package index, so that no toolkit has to be here: CUDA 11.8's for pycuda 2022.1, the
# last release for Python 3.7, which does not compile against later ones; CUDA 12.2's for Python 3.9 and later. What
# they build works with newer drivers too. Random numbers on the GPU (curand) are left out: nothing here uses them, and
# a toolkit would have to be there at run time.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
mkdir -p "$2"
folder=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if "$python" -c 'import sys; sys.exit(sys.version_info >= (3, 9))'; then
    later='<' headers=nvidia-cuda-runtime-cu11==11.8.89
else
    later='>=' headers=nvidia-cuda-runtime-cu12==12.2.140
fi
requirement=$(grep "^pycuda.*$later" "$here/requirements-gpu.txt" | sed 's/;.*//')

export PIP_CONSTRAINT=$here/requirements-build.txt
"$python" -m pip download -q --no-deps -d "$work" "$headers"
"$python" -m pip download -q --no-deps --no-binary :all: --no-build-isolation -d "$work" "$requirement"
"$python" -m zipfile -e "$work"/nvidia_cuda_runtime_cu1?-*.whl "$work/cuda"
mkdir "$work/source" "$work/lib"
tar xzf "$work"/pycuda-*.tar.gz -C "$work/source" --strip-components 1
echo 'CUDA_ENABLE_CURAND = False' >"$work/source/siteconf.py"

# The one header that the package lacks: the driver's profiler switches.
mkdir "$work/include"
cat >"$work/include/cudaProfiler.h" <<'EOT'
#pragma once
#include <cuda.h>
extern "C" {
typedef enum CUoutput_mode_enum { CU_OUT_KEY_VALUE_PAIR = 0, CU_OUT_CSV = 1 } CUoutput_mode;
CUresult CUDAAPI cuProfilerInitialize(const char *config_file, const char *output_file, CUoutput_mode mode);
CUresult CUDAAPI cuProfilerStart(void);
CUresult CUDAAPI cuProfilerStop(void);
}
EOT

# A driver is there as libcuda.so.1; linking asks for it without the number. It resolves its symbols when loaded.
echo >"$work/empty.c"
"${CC:-gcc}" -shared -Wl,-soname,libcuda.so.1 -o "$work/lib/libcuda.so" "$work/empty.c"
CPATH=$work/cuda/nvidia/cuda_runtime/include:$work/include LIBRARY_PATH=$work/lib LDFLAGS="-Wl,--no-as-needed" \
    "$python" -m pip wheel -q --no-deps --no-build-isolation -w "$folder" "$work/source"
