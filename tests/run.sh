#!/bin/sh
# Runs the test programs given as arguments (through $EMULATOR, if any), then the scripts ($SCRIPTS; all where that is not set), and prints one
# line of counts at the end.
# AT_ONCE=2 runs two programs at a time, and counts when all have ended.  FIGURES=1 prints the figure of each check of the scripts.
# A program's own tests are counted from cmocka's closing lines; a script prints "ok NAME", "not ok NAME" or "skip NAME" per check.
BUILD=${BUILD:-build}
export BUILD
EMULATOR=${EMULATOR:-} AT_ONCE=${AT_ONCE:-1}
export EMULATOR
passed=0 failed=0 skipped=0
log=$BUILD/test.log
mkdir -p "$BUILD"
: > "$log"

count() {       # NAME STATUS SECONDS OUTPUT-FILE PASSED FAILED SKIPPED
    passed=$((passed + $5)) failed=$((failed + $6)) skipped=$((skipped + $7))
    if [ "$2" -ne 0 ] && [ "$6" -eq 0 ]; then
        failed=$((failed + 1))
        echo "FAIL $1: ended with status $2"
    fi
    if [ "$2" -ne 0 ] || [ "$6" -ne 0 ]; then
        sed 's/^/    /' "$4" | grep -v ' RUN \|      OK' | tail -n 40
        echo "FAIL $1"
    else
        echo "ok   $1: $5 passed$([ "$7" -eq 0 ] || echo ", $7 skipped"), $3 s"
    fi
    cat "$4" >> "$log"
}

number() { sed -n "s/^\[  $1 *\] \([0-9][0-9]*\) test.*/\1/p" "$2" | awk '{n += $1} END {print n + 0}'; }

program='b=$(date +%s); $EMULATOR "$0" > "$0.log" 2>&1; echo $? $(($(date +%s) - b)) > "$0.status"'
[ "$AT_ONCE" -eq 1 ] || printf '%s\n' "$@" | xargs -n 1 -P "$AT_ONCE" sh -c "$program"
for t in "$@"; do
    [ "$AT_ONCE" -gt 1 ] || sh -c "$program" "$t"
    count "${t#"$BUILD"/}" $(cat "$t.status") "$t.log" "$(number PASSED "$t.log")" "$(number FAILED "$t.log")" "$(number SKIPPED "$t.log")"
done
for t in ${SCRIPTS-tests/layers.sh tests/pty/*.sh tests/hub/*.sh tests/remote/*.sh tests/golden/*.sh}; do
    [ -z "$EMULATOR" ] || [ "$t" = tests/golden/debug.sh ] || continue         # the others start programs by themselves
    begun=$(date +%s)
    sh "$t" > "$log.one" 2>&1
    status="$? $(($(date +%s) - begun))"
    [ -z "${FIGURES:-}" ] || grep '^ok ' "$log.one"
    count "$t" $status "$log.one" "$(grep -c '^ok ' "$log.one")" "$(grep -c '^not ok ' "$log.one")" "$(grep -c '^skip ' "$log.one")"
done
rm -f "$log.one"
echo "$passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
[ "$failed" -eq 0 ]
