#!/usr/bin/env bash
# Which set-up $SOK1X_TENSORFLOW asks for: sourced, it sets the variables below; run, it prints the environment's folder.
#
#   tensorflow     the requirement that pip gets, e.g. tensorflow==2.15.1
#   venv           the environment's folder: .venv of TensorFlow 1.15, .venv-2.15 of 2.15
#   requirements   the file that pins what belongs to it
#   pythons        the Pythons that it has wheels for, the preferred one first
#   called         it in words
tensorflow=${SOK1X_TENSORFLOW:-tensorflow==1.15.5}
# The first number with a dot in it, of 'tensorflow[and-cuda]~=2.15.1' and of a wheel's path alike.
case "$tensorflow" in
    *[0-9].[0-9]*) release=$(printf '%s' "${tensorflow##*/}" | sed -E 's/^[^0-9]*([0-9]+\.[0-9]+).*/\1/') ;;
    nvidia-tensorflow*) release=1.15 ;;
    *) release= ;;
esac
case "$release" in
    1.15)
        venv=.venv requirements=requirements.txt pythons=3.7 called="TensorFlow 1.15"
        case "$tensorflow" in nvidia-tensorflow*) pythons=3.8 called="NVIDIA's TensorFlow 1.15" ;; esac
        ;;
    2.15) venv=.venv-2.15 requirements=requirements-2.15.txt pythons="3.11 3.10 3.9" called="TensorFlow 2.15" ;;
    2.21) venv=.venv-2.21 requirements=requirements-2.21.txt pythons="3.12 3.13" called="TensorFlow 2.21" ;;
    *)
        {
            echo "SOK1X_TENSORFLOW=$tensorflow: got ${release:-no} version, expected one that sok1x is set up for:"
            echo "    tensorflow==1.15.5    (the default; also tensorflow-gpu==1.15.5, nvidia-tensorflow)"
            echo "    tensorflow==2.15.1    (also tensorflow-cpu==2.15.1, tensorflow[and-cuda]==2.15.1)"
            echo "    tensorflow==2.21.0    (with tf_keras; smoke-tested)"
        } >&2
        exit 2
        ;;
esac
if [ "${BASH_SOURCE[0]}" = "$0" ]; then echo "$venv"; fi
