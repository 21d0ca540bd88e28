#!/usr/bin/env bash
# Prints the path of a Python that the TensorFlow of $SOK1X_TENSORFLOW runs on (3.7 for 1.15, the default), or says on
# stderr what to install and exits 1.
#
# Looked at, in this order: $PYTHON, python3.7 (or the like) and its plainer names on PATH, pyenv's versions, conda's
# environments, uv's Pythons; and where uv is installed it is asked to fetch one. A TensorFlow that runs on several
# Pythons gets the one that tools/tensorflow_choice.sh prefers of those that are here.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tensorflow_choice.sh"

# Runs a candidate: a name on PATH proves nothing (pyenv's shims exist for versions that are not selected).
# Prints its real path when it is a 64-bit CPython of the wanted version that can make virtual environments.
# try PATH VERSION
try() {
    local path
    path=$("$1" - "$2" 2>/dev/null <<'PY'
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

one_of=${pythons// / or }
if [ -n "${PYTHON:-}" ]; then
    for wanted in $pythons; do
        if path=$(try "$PYTHON" "$wanted"); then found "$path"; fi
    done
    version=$("$PYTHON" -V 2>&1) || version="it does not run"
    {
        echo "PYTHON=$PYTHON cannot be used ($version): $called needs a 64-bit CPython $one_of with the"
        echo "modules venv and ensurepip. Unset PYTHON to have one looked for."
    } >&2
    exit 1
fi

pyenv_root=$(pyenv root 2>/dev/null)
for wanted in $pythons; do
    for name in "python$wanted" python3 python; do
        if path=$(try "$name" "$wanted"); then found "$path"; fi
    done

    for root in "${PYENV_ROOT:-}" "$pyenv_root" "$HOME/.pyenv"; do
        [ -n "$root" ] || continue
        # The newest of several: 3.7.16 before 3.7.9.
        while IFS= read -r candidate; do
            if path=$(try "$candidate" "$wanted"); then found "$path"; fi
        done < <(ls -d "$root/versions/$wanted"*/bin/python 2>/dev/null | sort -rV)
    done

    for command in "${CONDA_EXE:-conda}" mamba; do
        while IFS= read -r environment; do
            if path=$(try "$environment/bin/python" "$wanted"); then found "$path"; fi
        done < <("$command" env list 2>/dev/null | awk '!/^#/ && NF {print $NF}')
    done
    for candidate in "$HOME"/{miniconda3,anaconda3,miniforge3,mambaforge}/{,envs/*/}bin/python; do
        if path=$(try "$candidate" "$wanted"); then found "$path"; fi
    done

    if command -v uv >/dev/null 2>&1; then
        candidate=$(uv python find --no-python-downloads "$wanted" 2>/dev/null) \
            && path=$(try "$candidate" "$wanted") && found "$path"
    fi
done

wanted=${pythons%% *}
if command -v uv >/dev/null 2>&1; then
    echo "no Python $one_of on this machine: asking uv for one" >&2
    uv python install "$wanted" >&2 && candidate=$(uv python find "$wanted" 2>/dev/null) \
        && path=$(try "$candidate" "$wanted") && found "$path"
    echo "uv could not provide Python $wanted." >&2
fi

cat >&2 <<EOT
No Python $one_of was found, and $called has no wheels for another. Looked at: \$PYTHON, PATH,
pyenv's versions, conda's environments, uv. Install one in any of these ways and try again:
    pyenv install $wanted
    conda create -n python$wanted python=$wanted
    uv python install $wanted
or say where it is: PYTHON=/path/to/python$wanted make env
EOT
exit 1
