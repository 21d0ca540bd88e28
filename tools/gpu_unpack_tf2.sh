#!/usr/bin/env bash
# unpack.sh FOLDER [PARTS]: on the GPU machine, unpacks what tools/gpu_pack_tf2.sh packed, into FOLDER.
#
# PARTS is where part.00, part.01, ... lie (here). Then `source FOLDER/env.sh`, copy FOLDER/native/. over the checkout,
# and call python3.11, or whichever was packed. TensorFlow 2.15, built for CUDA 12 and cuDNN 8, gets this machine's
# libraries under the names that it looks for: their functions have kept their names and arguments. LIBRARIES: more
# folders to look in.
set -euo pipefail
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "${2:-.}"
cat part.* | xz -d -T0 | tar xif - -C "$folder"
# Else each of the processes that start first would compile every module for itself.
LD_LIBRARY_PATH=$folder/python/lib "$folder"/python/bin/python3.* -m compileall -q -j 0 "$folder/python/lib" \
    >/dev/null 2>&1 &

folders=
here=$(find ${LIBRARIES:-} /usr/local/cuda*/ /usr/lib /usr/local/lib /opt \( -name 'libcu*.so.*' -o -name 'libnccl.so.*' \
    -o -name 'libnvJitLink.so.*' \) -not -type d -not -path '*/stubs/*' 2>/dev/null || true)
# find_library NAME...: the first of these files on this machine
find_library() {
    local name found
    for name in "$@"; do
        found=$(grep -E "/${name//./\\.}$" <<<"$here" | head -n 1 || true)
        [ -z "$found" ] || { echo "$found"; return; }
    done
}
# link AS NAME...: the first of these files under the name AS
link() {
    local found as=$1
    shift
    found=$(find_library "$@")
    [ -n "$found" ] || { echo "unpack.sh: got none of $*, expected one on this machine" >&2; return 1; }
    ln -sf "$found" "$folder/cuda12/$as"
    # What it needs besides lies beside it.
    case ":$folders:" in *":$(dirname "$found"):"*) ;; *) folders=$folders:$(dirname "$found") ;; esac
    echo "$as is $found"
}
link libcublas.so.12 libcublas.so.12 libcublas.so.13
link libcublasLt.so.12 libcublasLt.so.12 libcublasLt.so.13
link libcufft.so.11 libcufft.so.11 libcufft.so.12
link libcurand.so.10 libcurand.so.10
link libcusolver.so.11 libcusolver.so.11 libcusolver.so.12
link libcusparse.so.12 libcusparse.so.12
link libcudnn.so.8 libcudnn.so.8 libcudnn.so.9
link libnccl.so.2 libnccl.so.2
linker=$(find_library libnvJitLink.so.13 libnvJitLink.so.12)
[ -z "$linker" ] || folders=$folders:$(dirname "$linker")

cat >"$folder/env.sh" <<EOT
export PATH=$folder/python/bin:/usr/local/cuda/bin:\$PATH
export LD_LIBRARY_PATH=$folder/cuda12:$folder/python/lib$folders\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
export CUDA_MODULE_LOADING=LAZY CUDA_CACHE_MAXSIZE=4294967296
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
EOT
wait
echo "ready: source $folder/env.sh"
