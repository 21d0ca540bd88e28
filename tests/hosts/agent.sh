#!/bin/sh
# agent.sh FOLDER PREFIX [OPTIONS] HOST COMMAND...: what ssh does, for hosts that are namespaces (network.py).
#
# Like ssh it gives the words of the command, joined, to a shell there, with next to nothing of this environment.
set -eu
folder=$1 prefix=$2
shift 2
host=
while [ $# -gt 0 ]; do  # options may come before the host and behind it
    case "$1" in
        -o | -p | -i) shift 2 ;;
        -*) shift ;;
        *) [ -z "$host" ] || break
           host=$1
           shift ;;
    esac
done
[ $# -gt 0 ] || set -- true
exec ip netns exec "$prefix$host" nsenter --target "$(cat "$folder/$host.pid")" --uts --mount -- \
    env -i HOME="$HOME" PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" SHELL=/bin/bash \
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 sh -c "$*"
