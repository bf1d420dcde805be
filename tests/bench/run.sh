#!/bin/sh
# Runs the benchmarks given as arguments.  They print figures; nothing here passes or fails.
for b in "$@"; do
    echo "== ${b##*/}"
    "$b" || exit 1
done
sh tests/bench/terminal.sh
