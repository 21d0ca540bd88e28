#!/usr/bin/env bash
# tools/setup_env.sh [horovod]: makes .venv with everything sok1x runs, builds and is tested on, and builds sok1x itself
# in place. Horovod, which takes minutes to build and which sok1x does not need, only where it is asked for: tests and
# benchmarks use it. TensorFlow 2 gets an environment of its own beside it, .venv-2.15: tools/tensorflow_choice.sh.
#
# A second call does next to nothing: stamps in .venv say what it was made from. What can be missing on a machine is
# either installed (Open MPI and a compiler by apt, as root) or named with the command to type.
#
# PYTHON            the Python to use (tools/find_python.sh says where one is looked for)
# SOK1X_TENSORFLOW  another TensorFlow requirement than requirements.txt's, e.g. tensorflow-gpu==1.15.5 or
#                   tensorflow==2.15.1
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/tensorflow_choice.sh

logs=build/setup${venv#.venv}
wheels=$logs/wheels
python=$venv/bin/python
stamp=$venv/sok1x-setup
with_horovod=no
case "${1:-}" in
    "") ;;
    horovod) with_horovod=yes ;;
    *) echo "tools/setup_env.sh: got '$1', expected nothing or 'horovod'" >&2; exit 2 ;;
esac
began=$SECONDS
mkdir -p "$logs" build/setup

# Under make, its flags would reach Horovod's own make and keep that from using every core.
unset MAKEFLAGS MFLAGS MAKELEVEL
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_PROGRESS_BAR=off PIP_USER=0
unset PIP_TARGET PIP_PREFIX PYTHONPATH PYTHONHOME

say() { printf 'set-up: %s\n' "$*"; }
fail() { printf '\nset-up stopped: %s\n' "$*" >&2; exit 1; }

declare -A jobs=() labels=() starts=()

# Ctrl-C, or an error: nothing that was started stays behind.
end_jobs() {
    local pid
    for pid in "${jobs[@]}"; do kill -TERM -- "-$pid" 2>/dev/null || true; done
}
trap end_jobs EXIT
trap 'echo; say "interrupted; the next call goes on from here"; exit 130' INT TERM

# start NAME LABEL COMMAND...: runs the command in a process group of its own, its output in a log.
start() {
    local name=$1
    labels[$name]=$2
    starts[$name]=$SECONDS
    shift 2
    say "${labels[$name]} ..."
    set -m
    "$@" >"$logs/$name.log" 2>&1 </dev/null &
    jobs[$name]=$!
    set +m
}

# finish NAME: waits, saying now and then that it does; false when the command failed.
finish() {
    local name=$1 pid=${jobs[$1]} next=$((SECONDS + 30)) code=0
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.2
        if [ $SECONDS -ge $next ]; then
            say "${labels[$name]%% (*}: $((SECONDS - starts[$name])) s so far"
            next=$((SECONDS + 30))
        fi
    done
    wait "$pid" 2>/dev/null || code=$?
    unset "jobs[$name]"
    [ $code -eq 0 ] || return 1
    say "${labels[$name]%% (*}: done, $((SECONDS - starts[$name])) s"
}

# must NAME HINT: like finish, and a failure ends the set-up with the end of the log.
must() {
    finish "$1" && return
    echo >&2
    tail -n 25 "$logs/$1.log" | grep -v "is ignored: it is neither a file nor a directory" >&2 || true
    fail "${labels[$1]%% (*} failed (the whole log: $logs/$1.log). $2"
}

pip_install() { "$python" -m pip install -q "$@"; }
missing() { ! command -v "$1" >/dev/null 2>&1; }

# ---------------------------------------------------------------- Open MPI and a compiler
need_packages() {
    local packages=()
    if missing mpiexec; then packages+=(openmpi-bin); fi
    if missing mpicc || missing mpicxx; then packages+=(libopenmpi-dev); fi
    if [ -z "${CXX:-}" ] && missing g++; then packages+=(g++); fi
    [ ${#packages[@]} -gt 0 ] || return 0
    if missing apt-get; then
        fail "mpiexec, mpicc, mpicxx and g++ are needed, and at least one is missing (Debian's packages:" \
             "${packages[*]}). Install Open MPI 4 with its headers and a C++ compiler with this system's" \
             "package manager, then type the same command again."
    fi
    if [ "$(id -u)" -ne 0 ]; then
        fail "these packages are missing: ${packages[*]}. Type this, then the same command again:
    sudo apt-get update && sudo apt-get install -y ${packages[*]}"
    fi
    start apt "installing ${packages[*]} with apt" apt_install "${packages[@]}"
    must apt "Try by hand: apt-get update && apt-get install -y ${packages[*]}"
}
apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q && apt-get install -y -q --no-install-recommends "$@"
}

# ---------------------------------------------------------------- Python and .venv
make_venv() {
    local base serve=$pythons
    [ "$venv" != .venv ] || serve="3.7 3.8"
    if [ -x "$python" ] && "$python" -c 'import pip, sys; sys.exit("%d.%d" % sys.version_info[:2] not in sys.argv)' \
            $serve 2>/dev/null; then
        # tensorflow and tensorflow-cpu write over each other: one in place of the other asks for a fresh start.
        [ "$venv" != .venv ] && [ "$(cat "$venv/sok1x-tensorflow" 2>/dev/null)" != "$tensorflow" ] || return 0
    fi
    base=$(tools/find_python.sh) || fail "no Python to make $venv with (see above)."
    if [ -e "$venv" ]; then
        [ -f "$venv/pyvenv.cfg" ] || fail "$venv is there and is no virtual environment: move it away."
        say "the old $venv does not run, or has another TensorFlow: making it anew"
        rm -rf "$venv"
    fi
    start venv "making $venv with $("$base" -V 2>&1) ($base)" "$base" -m venv "$venv"
    must venv "Check that $base has the modules venv and ensurepip."
    echo "$tensorflow" >"$venv/sok1x-tensorflow"
}

# ---------------------------------------------------------------- packages
# Python 3.7 gets mpi4py from source: there are no wheels for it.
build_mpi4py() {
    # Debug symbols and -O3 of the one huge generated file would double the time, for glue code.
    CFLAGS="${CFLAGS:-} -O1 -g0" PIP_CONSTRAINT="$PWD/requirements-build.txt" \
        "$python" -m pip wheel -q --no-deps -w "$wheels" "$@" "$(grep '^mpi4py' requirements-mpi.txt)"
}

install_mpi4py() { pip_install --no-deps --force-reinstall "$(ls -t "$wheels"/mpi4py-*.whl | head -n 1)"; }

install_horovod() {
    HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITH_MPI=1 HOROVOD_WITHOUT_GLOO=1 HOROVOD_WITHOUT_PYTORCH=1 \
        HOROVOD_WITHOUT_MXNET=1 PATH="$PWD/$venv/bin:$PATH" MAKEFLAGS="-j$(nproc)" \
        pip_install --no-deps --no-build-isolation "$@" "$(grep '^horovod' requirements-mpi.txt)"
}

# Horovod's build needs CMake 3: a later one refuses its sources, and without any it tries to fetch an old one.
install_cmake() {
    case "$(cmake --version 2>/dev/null | head -n 1)" in
        "cmake version 3."*) ;;
        *) pip_install "$(grep '^cmake' requirements-build.txt)" ;;
    esac
}

# A wheel that pip kept from an earlier build may be for another MPI or another TensorFlow.
mpi4py_works() { "$python" -c 'import mpi4py; mpi4py.rc.initialize = False; import mpi4py.MPI' >/dev/null 2>&1; }
horovod_works() {
    TF_CPP_MIN_LOG_LEVEL=3 "$python" -W ignore -c 'import sys, horovod.tensorflow as hvd; sys.exit(not hvd.mpi_built())' >/dev/null 2>&1
}

cuda_driver() { "$python" -c 'import ctypes, sys; sys.exit(ctypes.CDLL("libcuda.so.1").cuInit(0))' 2>/dev/null; }

# pip keeps no wheel that it built from a folder, so .venv does. Later releases than Python 3.7's compile as they are.
install_pycuda() {
    [ "$venv" != .venv ] || ls .venv/wheels/pycuda-*.whl >/dev/null 2>&1 || tools/build_pycuda.sh "$python" .venv/wheels
    pip_install --find-links "$venv/wheels" -r requirements-gpu.txt
}

install_packages() {
    rm -rf "$wheels"
    start pip "installing pip and setuptools" pip_install $(grep -E '^(pip|setuptools|wheel)=' requirements-build.txt)
    must pip "Is a package index reachable? pip's own settings and environment are used."

    # mpi4py is built for Python 3.7 alone: for others it has wheels.
    [ "$venv" != .venv ] || "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' \
        || fail "Python.h of $("$python" -V) is missing: install this Python's headers (Debian: python3-dev's like)."

    # What compiles, the kernels and mpi4py, does so while TensorFlow is downloaded.
    start kernels "building the host kernels" "$python" setup.py -q build_native --only host_kernels
    [ "$venv" != .venv ] || start mpi4py "building mpi4py (about a minute the first time)" build_mpi4py
    start tensorflow "installing TensorFlow, NumPy, pytest and the like" \
        pip_install -r "$logs/requirements.txt" $([ "$venv" != .venv ] || echo -r requirements-dev.txt)
    must tensorflow "Is a package index reachable that has these versions for this Python?"
    must kernels ""
    start sok1x "building sok1x and linking it into $venv" pip_install --no-deps --no-build-isolation -e .
    must sok1x ""
    if [ "$venv" = .venv ]; then
        must mpi4py "It needs a working mpicc and Python's headers."
        start mpi4py_install "installing mpi4py" install_mpi4py
        must mpi4py_install ""
    fi
    if ! mpi4py_works; then
        start mpi4py "building mpi4py anew: the one that pip had was built for another MPI" \
            build_mpi4py --no-cache-dir --no-binary mpi4py
        must mpi4py "It needs a working mpicc and Python's headers."
        install_mpi4py
        mpi4py_works || fail "mpi4py does not import; $python -c 'import mpi4py.MPI' says why."
    fi

    if cuda_driver; then
        start pycuda "building pycuda: there is a CUDA driver (about 2 minutes the first time)" install_pycuda
        finish pycuda || say "pycuda could not be built ($logs/pycuda.log says why). Going on without it: training" \
            "on the CPU does not need it."
    fi
}

add_horovod() {
    if [ "$release" = 2.21 ]; then
        say "no Horovod: its last release, 0.28.1, is older than TensorFlow 2.16; dense variables go by sok1x's own means"
        return
    fi
    start cmake "looking for CMake 3" install_cmake
    must cmake "Install CMake 3 (Debian: apt-get install cmake)."
    start horovod "building Horovod, for tests and benchmarks (about 2 minutes the first time)" install_horovod
    must horovod "It needs mpicxx, CMake 3 and a C++ compiler."
    if ! horovod_works; then
        start horovod "building Horovod anew: the one that pip kept was built for another MPI or TensorFlow" \
            install_horovod --no-cache-dir --force-reinstall
        must horovod "It needs mpicxx, CMake 3 and a C++ compiler."
        horovod_works || fail "Horovod does not import with MPI; $python -c 'import horovod.tensorflow' says why."
    fi
}

# ---------------------------------------------------------------- the whole
if ! missing flock; then
    exec 9>build/setup/lock
    flock -n 9 || { say "another set-up of this checkout is running: waiting for it"; flock 9; }
fi

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] \
    || fail "sok1x is made for TensorFlow on Linux and x86_64, and this is $(uname -s) on $(uname -m)."
need_packages

cp "$requirements" "$logs/requirements.txt"
if [ -n "${SOK1X_TENSORFLOW:-}" ]; then
    sed -i "s|^tensorflow==.*|$SOK1X_TENSORFLOW|" "$logs/requirements.txt"
fi
key=$(cat requirements-{build,dev,gpu,mpi}.txt "$logs/requirements.txt" setup.py pyproject.toml tools/setup_env.sh \
      tools/{find_python,tensorflow_choice}.sh tools/{build_commands,checkout_finder}.py \
      <(echo "$PWD") | sha256sum)
make_venv
if [ "$(cat "$stamp" 2>/dev/null)" != "$key" ]; then
    rm -f "$stamp" "$stamp-horovod"
    install_packages
    echo "$key" >"$stamp"
    say "done in $((SECONDS - began)) s; the next call takes a few"
else
    # sok1x alone: what changed since.
    "$python" setup.py -q build_native || fail "sok1x did not build (see above)."
fi
if [ $with_horovod = yes ] && [ "$(cat "$stamp-horovod" 2>/dev/null)" != "$key" ]; then
    add_horovod
    echo "$key" >"$stamp-horovod"
fi
