#!/bin/sh
# Runs the tests given, of a build with `--coverage`, then prints how many lines of a decode step they ran: the definitions of its operations,
# what records and launches them, the states, and the decode loop.  Fails below 95 % of all of them together.
BUILD=${BUILD:-build/coverage}
FILES="kernels/cpu/step_attention.c kernels/cpu/step_delta.c kernels/cpu/step_experts.c kernels/cpu/step_linear.c kernels/cpu/step_pick.c
src/model/fused.c src/model/stepper.c src/model/cache.c src/engine/decode.c"
[ $# -gt 0 ] || { echo "usage: tests/coverage.sh TEST..." >&2; exit 2; }
find "$BUILD" -name '*.gcda' -exec rm -f {} +
for t; do
    "$t" > "$t.log" 2>&1 || { echo "not ok ${t##*/}, see $t.log"; exit 1; }
done
for f in $FILES; do
    gcov -n "$BUILD/$f.gcda" 2> /dev/null | grep -A1 "^File '$f'" | sed -n "s|^Lines executed:\([0-9.]*\)% of \([0-9]*\).*|\1 \2 $f|p"
done | awk '
{ lines += $2; run += $1 * $2 / 100; printf "%7.2f %% of %4d lines  %s\n", $1, $2, $3 }
END {
    if (!lines) { print "not ok gcov printed nothing"; exit 1 }
    all = 100 * run / lines
    printf "%7.2f %% of %4d lines  together\n", all, lines
    if (NR != 9 || all < 95) { print "not ok expected all nine files and at least 95 %"; exit 1 }
}'
