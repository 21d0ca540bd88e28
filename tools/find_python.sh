#!/usr/bin/env bash
# Prints the path of a Python that TensorFlow 1.15 runs on, or says on stderr what to install and exits 1.
#
# TensorFlow 1.15.5 has wheels up to Python 3.7. Python 3.8 is looked for instead where SOK1X_TENSORFLOW names
# NVIDIA's build (nvidia-tensorflow...), which is made for it.
# Looked at, in this order: $PYTHON, python3.7 and its plainer names on PATH, pyenv's versions, conda's
# environments, uv's Pythons; and where uv is installed it is asked to fetch one.
set -uo pipefail

wanted=3.7
case "${SOK1X_TENSORFLOW:-}" in nvidia-tensorflow*) wanted=3.8 ;; esac

# Runs a candidate: a name on PATH proves nothing (pyenv's shims exist for versions that are not selected).
# Prints its real path when it is a 64-bit CPython of the wanted version that can make virtual environments.
try() {
    local path
    path=$("$1" - "$wanted" 2>/dev/null <<'PY'
import sys
wanted = tuple(int(part) for part in sys.argv[1].split("."))
import ensurepip, os, platform, venv
if sys.version_info[:2] != wanted or platform.python_implementation() != "CPython" or sys.maxsize < 2 ** 32:
    sys.exit(1)
path = sys.executable
if sys.prefix != sys.base_prefix:  # an activated environment, perhaps the very one that is to be made anew
    path = os.path.join(sys.base_prefix, "bin", "python" + sys.argv[1])
print(path)
PY
    ) && [ -x "$path" ] && printf '%s\n' "$path"
}

found() {
    printf '%s\n' "$1"
    exit 0
}

if [ -n "${PYTHON:-}" ]; then
    if path=$(try "$PYTHON"); then found "$path"; fi
    version=$("$PYTHON" -V 2>&1) || version="it does not run"
    {
        echo "PYTHON=$PYTHON cannot be used ($version): TensorFlow here needs a 64-bit CPython $wanted with the"
        echo "modules venv and ensurepip. Unset PYTHON to have one looked for."
    } >&2
    exit 1
fi

for name in "python$wanted" python3 python; do
    if path=$(try "$name"); then found "$path"; fi
done

for root in "${PYENV_ROOT:-}" "$(pyenv root 2>/dev/null)" "$HOME/.pyenv"; do
    [ -n "$root" ] || continue
    # The newest of several: 3.7.16 before 3.7.9.
    while IFS= read -r candidate; do
        if path=$(try "$candidate"); then found "$path"; fi
    done < <(ls -d "$root/versions/$wanted"*/bin/python 2>/dev/null | sort -rV)
done

for command in "${CONDA_EXE:-conda}" mamba; do
    while IFS= read -r environment; do
        if path=$(try "$environment/bin/python"); then found "$path"; fi
    done < <("$command" env list 2>/dev/null | awk '!/^#/ && NF {print $NF}')
done
for candidate in "$HOME"/{miniconda3,anaconda3,miniforge3,mambaforge}/{,envs/*/}bin/python; do
    if path=$(try "$candidate"); then found "$path"; fi
done

if command -v uv >/dev/null 2>&1; then
    candidate=$(uv python find --no-python-downloads "$wanted" 2>/dev/null) \
        && path=$(try "$candidate") && found "$path"
    echo "no Python $wanted on this machine: asking uv for one" >&2
    uv python install "$wanted" >&2 && candidate=$(uv python find "$wanted" 2>/dev/null) \
        && path=$(try "$candidate") && found "$path"
    echo "uv could not provide Python $wanted." >&2
fi

cat >&2 <<EOT
No Python $wanted was found, and TensorFlow 1.15.5 has no wheels for a later one. Looked at: \$PYTHON, PATH,
pyenv's versions, conda's environments, uv. Install one in any of these ways and try again:
    pyenv install $wanted
    conda create -n python$wanted python=$wanted
    uv python install $wanted
or say where it is: PYTHON=/path/to/python$wanted make env
EOT
exit 1
