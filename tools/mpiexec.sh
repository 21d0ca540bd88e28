#!/usr/bin/env bash
# tools/mpiexec.sh RANKS COMMAND...: starts the command on that many ranks of this machine.
#
# Takes care of what Open MPI asks for on small machines and in containers: more ranks than cores, being root,
# and ranks that are free to use every core they may run on (Open MPI ties one or two ranks to a core each).
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: $0 RANKS COMMAND..." >&2; exit 2; }
ranks=$1
shift
case "$ranks" in
    '' | *[!0-9]* | 0) echo "RANKS is a number of processes, from 1 up: got '$ranks'." >&2; exit 2 ;;
esac
command -v mpiexec >/dev/null || { echo "mpiexec was not found: 'make env' installs Open MPI." >&2; exit 1; }

options=(-np "$ranks")
if mpiexec --version 2>/dev/null | grep -qi "open mpi\|openrte\|prterun"; then
    options+=(--bind-to none --oversubscribe)
fi
if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
exec mpiexec "${options[@]}" "$@"
