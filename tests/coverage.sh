#!/bin/sh
# Runs the tests given, of a build whose objects of $FILES were compiled with `--coverage`, then prints how many lines of each of the
# files they ran.  Fails below 95 % of all of them together.  AT_ONCE=2 runs two programs at a time.
BUILD=${BUILD:-build/coverage}
[ $# -gt 0 ] && [ -n "${FILES:-}" ] || { echo "usage: FILES='FILE.c ...' tests/coverage.sh TEST..." >&2; exit 2; }
find "$BUILD" -name '*.gcda' -exec rm -f {} +
BUILD=$BUILD AT_ONCE=${AT_ONCE:-1} SCRIPTS= sh tests/run.sh "$@" || { echo "not ok the tests, see $BUILD/logs"; exit 1; }
for f in $FILES; do
    said=$(gcov -n "$BUILD/$f.gcda" 2> /dev/null | grep -A1 "^File '$f'" | sed -n "s|^Lines executed:\([0-9.]*\)% of \([0-9]*\).*|\1 \2 $f|p")
    [ -n "$said" ] && echo "$said" || echo "0 0 $f: gcov says nothing, expected the lines that ran"
done | awk '
{
    lines += $2; run += $1 * $2 / 100; unread += !$2
    size = $2; part = $1; $1 = $2 = ""; sub(/^ */, "")
    printf "%7.2f %% of %4d lines  %s\n", part, size, $0
}
END {
    all = lines ? 100 * run / lines : 0
    printf "%7.2f %% of %4d lines  together\n", all, lines
    if (unread || all < 95) { print "not ok expected at least 95 % of the lines, and an answer for every file"; exit 1 }
}'
