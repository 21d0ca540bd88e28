#!/usr/bin/env bash
# tools/gpu_pack_tf2.sh ENVIRONMENT FOLDER [ARCHITECTURE]: TensorFlow 2.15 with its Python, for a GPU machine that has
# neither a network nor that Python, nor CUDA 12.
#
# ENVIRONMENT    what `SOK1X_TENSORFLOW=tensorflow==2.15.1 make env` made: .venv-2.15
# FOLDER         gets part.00, part.01, ... of at most PART (56M) each, and unpack.sh, which is tools/gpu_unpack_tf2.sh
# ARCHITECTURE   of the machine's GPUs (sm_90): TensorFlow's kernels are compiled for it here, which takes some twenty
#                minutes of CPU time, and for no other (tools/gpu_images.py; SECONDS_LEFT bounds it)
# WORK           a folder to work in; one that is given is kept, and a second call goes on from what it has
#
# The packages that TensorFlow's wheel would take from tensorflow[and-cuda] are gigabytes. Only CUDA 12's runtime
# travels; the machine's own libraries of CUDA 13 and cuDNN 9 take the other names. What neither training nor our tests
# use is left out: headers, TensorBoard's pages, the code that XLA's and TensorFlow's own NCCL would be linked from.
# With it travel pycuda, and the native libraries as they are built in this checkout for that TensorFlow.
#
# Needs here: nvcc's ptxas and fatbinary in PATH, a C++ compiler, xz, a package index.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
environment=$(cd "$1" && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)
architecture=${3:-sm_90}
python=$environment/bin/python
kept=${WORK:-}
work=${kept:-$(mktemp -d)}
mkdir -p "$work"
work=$(cd "$work" && pwd)
[ -n "$kept" ] || trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1

base=$("$python" -c 'import sys; print(sys.base_prefix)')
name=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
site=lib/$name/site-packages
TF_CPP_MIN_LOG_LEVEL=3 "$python" - <<'EOT'
from tensorflow.python.platform import build_info
assert build_info.build_info["is_cuda_build"], "got tensorflow-cpu, expected tensorflow, whose wheel has GPU code"
EOT

# Python, and its packages in place of its own
rm -rf "$work/pack" "$work/pycuda"
mkdir -p "$work/pack/python/lib" "$work/pack/python/bin" "$work/pack/cuda12" "$work/pack/native"
cd "$work/pack/python"
cp -a "$base/bin/$name" bin/
cp -a "$base/lib/$name" lib/
find "$base/lib" -maxdepth 1 -name 'libpython*.so*' -exec cp -a {} lib/ \;
# The one library of this system that Python itself cannot do without, where it has not its own
ctypes=$("$python" -c 'import _ctypes, sys; print(getattr(_ctypes, "__file__", sys.executable))')
ldd "$ctypes" | awk '/libffi/ { print $3 }' | xargs -I{} cp -L {} lib/
for unused in test idlelib tkinter turtledemo ensurepip lib2to3 pydoc_data 'config-*' 'site-packages/*'; do
    # Globs are meant.
    rm -rf lib/"$name"/$unused
done
cp -a "$environment/$site/." "$site/"
cd "$site"
rm -rf pip pip-* clang libclang* tensorflow/include tensorboard_data_server tensorboard/webfiles.zip sok1x-* _sok1x_* \
    distutils-precedence.pth
find . \( -name tests -o -name testdata \) -type d \( -path './numpy/*' -o -path './h5py/*' \) -prune -exec rm -rf {} +
cd "$work/pack/python"
find . -name __pycache__ -prune -exec rm -rf {} +
# What was built on this machine; wheels that carry libraries are left as they are.
for built in "$site/horovod" lib/"$name"/lib-dynload lib/libpython*; do  # not all are there
    [ ! -e "$built" ] || find "$built" -name '*.so*' -type f -exec strip --strip-unneeded {} +
done

# TensorFlow's kernels for this GPU
cp -L "$environment/$site/tensorflow/libtensorflow_cc.so.2" "$site/tensorflow/libtensorflow_cc.so.2"
"$python" "$here/tools/gpu_images.py" "$site/tensorflow/libtensorflow_cc.so.2" "$architecture" "$work/images"

# CUDA 12's runtime, and pycuda
cuda=nvidia-cuda-runtime-cu12==12.2.140
"$python" -m pip download -q --no-deps -d "$work/cuda" "$cuda"
"$python" -m zipfile -e "$work"/cuda/nvidia_cuda_runtime_cu12-*.whl "$work/cuda/expanded"
cp "$work/cuda/expanded/nvidia/cuda_runtime/lib/libcudart.so.12" "$work/pack/cuda12/"
ls "$work"/wheels/pycuda-*.whl >/dev/null 2>&1 || "$here/tools/build_pycuda.sh" "$python" "$work/wheels"
grep -E '^pycuda.*>=' "$here/requirements-gpu.txt" | sed 's/;.*//' >"$work/requirements.txt"
"$python" -m pip install -q --find-links "$work/wheels" --target "$work/pycuda" -r "$work/requirements.txt" \
    "$("$python" -c 'import numpy; print("numpy==" + numpy.__version__)')"
rm -rf "$work"/pycuda/numpy* "$work"/pycuda/bin
cp -an "$work/pycuda/." "$site/"

# What is built of this checkout
cd "$here"
version=$("$python" -c 'import importlib.metadata; print(importlib.metadata.version("tensorflow"))')
cp --parents graph_ops/bridge/_bridge.tf"$version"-*.so cuda_kernels/_host_kernels*.so "$work/pack/native/"

cd "$work/pack"
rm -f "$folder"/part.*
tar cf - --sort=name --owner=0 --group=0 . | xz -T0 "-${XZ_LEVEL:-6}" | split -b "${PART:-56M}" -d - "$folder/part."
cp "$here/tools/gpu_unpack_tf2.sh" "$folder/unpack.sh"
ls -l "$folder"
