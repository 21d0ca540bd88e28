#!/bin/sh
# clean.sh FOLDER NAMESPACES...: waits for the end of its input, then removes the namespaces, what runs in them, and the
# folder. Its input ends with the process that has made them, also where that is killed.
folder=$1
shift
cat >/dev/null
for namespace; do
    pids=$(ip netns pids "$namespace" 2>/dev/null)
    [ -z "$pids" ] || kill -9 $pids 2>/dev/null
    ip netns del "$namespace" 2>/dev/null
done
rm -rf "$folder"
