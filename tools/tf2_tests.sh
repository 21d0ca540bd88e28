#!/usr/bin/env bash
# tools/tf2_tests.sh RELEASE SELECTION WORKERS [PYTEST ARGUMENTS...]: sets up TensorFlow 2 and runs tests on it.
#
# RELEASE     2.15: the suite; 2.21: a smoke test, tests/on_tensorflow2/smoke.txt, with tf_keras
# SELECTION   of 2.15: all; or ci, the tests that are listed in tests/on_tensorflow2/ci.txt. After either those of
#             v2_behavior.txt once more, without disable_v2_behavior()
# WORKERS     tests that run at a time
# SOK1X_TENSORFLOW may name another requirement of that release: tensorflow-cpu==2.15.1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
wanted=$1 selection=$2 workers=$3
shift 3

case "${SOK1X_TENSORFLOW:-}" in
    "") case "$wanted" in
            2.15) export SOK1X_TENSORFLOW=tensorflow==2.15.1 ;;
            2.21) export SOK1X_TENSORFLOW=tensorflow==2.21.0 ;;
            *) echo "TF=$wanted: got '$wanted', expected 2.15 or 2.21" >&2; exit 2 ;;
        esac ;;
esac
. tools/tensorflow_choice.sh
[ "$release" = "$wanted" ] || { echo "TF=$wanted and SOK1X_TENSORFLOW=$tensorflow: got two releases" >&2; exit 2; }
lists=tests/on_tensorflow2
case "$release-$selection" in
    2.15-all) tests=tests ;;
    2.15-ci) tests=$(grep -vE '^(#|$)' $lists/ci.txt) ;;
    2.21-all) tests=$(grep -vE '^(#|$)' $lists/smoke.txt) ;;
    *) echo "SELECTION=$selection: got '$selection', expected all, or ci with TF=2.15" >&2; exit 2 ;;
esac

tools/setup_env.sh horovod
python=$venv/bin/python
[ "$release" != 2.21 ] || export TF_USE_LEGACY_KERAS=1
"$python" legacy_examples/movielens.py .data/ml-100k
# Word splitting is meant: a test a word.
"$python" -m pytest -m "not slow" -n "$workers" --dist worksteal $tests "$@"
[ "$release" = 2.15 ] || exit 0
tests=$(grep -vE '^(#|$)' $lists/v2_behavior.txt)
SOK1X_TEST_BEHAVIOR=v2 exec "$python" -m pytest -m "not slow" -n "$workers" --dist worksteal $tests "$@"
