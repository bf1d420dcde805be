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

count() {       # NAME STATUS OUTPUT-FILE PASSED FAILED SKIPPED
    passed=$((passed + $4)) failed=$((failed + $5)) skipped=$((skipped + $6))
    if [ "$2" -ne 0 ] && [ "$5" -eq 0 ]; then
        failed=$((failed + 1))
        echo "FAIL $1: ended with status $2"
    fi
    if [ "$2" -ne 0 ] || [ "$5" -ne 0 ]; then
        sed 's/^/    /' "$3" | grep -v ' RUN \|      OK' | tail -n 40
        echo "FAIL $1"
    else
        echo "ok   $1: $4 passed$([ "$6" -eq 0 ] || echo ", $6 skipped")"
    fi
    cat "$3" >> "$log"
}

number() { sed -n "s/^\[  $1 *\] \([0-9][0-9]*\) test.*/\1/p" "$2" | awk '{n += $1} END {print n + 0}'; }

program='$EMULATOR "$0" > "$0.log" 2>&1; echo $? > "$0.status"'
[ "$AT_ONCE" -eq 1 ] || printf '%s\n' "$@" | xargs -n 1 -P "$AT_ONCE" sh -c "$program"
for t in "$@"; do
    [ "$AT_ONCE" -gt 1 ] || sh -c "$program" "$t"
    count "${t#"$BUILD"/}" "$(cat "$t.status")" "$t.log" "$(number PASSED "$t.log")" "$(number FAILED "$t.log")" "$(number SKIPPED "$t.log")"
done
for t in ${SCRIPTS-tests/layers.sh tests/pty/*.sh tests/hub/*.sh tests/remote/*.sh tests/golden/*.sh}; do
    [ -z "$EMULATOR" ] || [ "$t" = tests/golden/debug.sh ] || continue         # the others start programs by themselves
    sh "$t" > "$log.one" 2>&1
    status=$?
    [ -z "${FIGURES:-}" ] || grep '^ok ' "$log.one"
    count "$t" $status "$log.one" "$(grep -c '^ok ' "$log.one")" "$(grep -c '^not ok ' "$log.one")" "$(grep -c '^skip ' "$log.one")"
done
rm -f "$log.one"
echo "$passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
[ "$failed" -eq 0 ]
