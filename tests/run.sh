#!/bin/sh
# Runs the test programs given as arguments (through $EMULATOR, if any) and the scripts ($SCRIPTS; all where that is not set), and prints one
# line of counts at the end.  AT_ONCE=2 runs two at a time, those of tests/slow.txt first.  SKIP names scripts to leave out.  FIGURES=1 prints
# the figure of each check of the scripts.  A program that runs for more than LIMIT seconds fails.
# A program's own tests are counted from cmocka's closing lines; a script prints "ok NAME", "not ok NAME" or "skip NAME" per check.
BUILD=${BUILD:-build}
EMULATOR=${EMULATOR:-} AT_ONCE=${AT_ONCE:-1} LIMIT=${LIMIT:-900}
export BUILD EMULATOR FIGURES LIMIT

log_of() { echo "$BUILD/logs/$(echo "${1#"$BUILD"/}" | tr / -)"; }
number() { sed -n "s/^\[  $1 *\] \([0-9][0-9]*\) test.*/\1/p" "$2" | awk '{n += $1} END {print n + 0}'; }

# One program or script, whose report is written in one go, since others run beside it.  A script keeps to one core, but under sanitizers: the
# threads of a small model mostly wait for each other (pty/pipe.sh takes 20 s of processor time on one core, 31 on two).
if [ "$1" = one ]; then
    test=$2 begun=$(date +%s) name=${2#"$BUILD"/}
    log=$(log_of "$test")
    case $test in
    *.sh)
        core="taskset -c $((${SLOT:-0} % $(nproc)))"
        [ -z "$SAN" ] && $core true 2> /dev/null || core=
        $core sh "$test" > "$log" 2>&1
        status=$? passed=$(grep -c '^ok ' "$log") failed=$(grep -c '^not ok ' "$log") skipped=$(grep -c '^skip ' "$log") ;;
    *)
        timeout --foreground -k 10 "$LIMIT" $EMULATOR "$test" > "$log" 2>&1
        status=$? passed=$(number PASSED "$log") failed=$(number FAILED "$log") skipped=$(number SKIPPED "$log") ;;
    esac
    took="$(($(date +%s) - begun)) s"
    ended="ended with status $status"
    [ "$status" -ne 124 ] && [ "$status" -ne 137 ] || ended="$ended, after $took of at most $LIMIT"
    [ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1 first="FAIL $name: $ended
"
    echo "$passed $failed $skipped" > "$log.count"
    if [ "$failed" -ne 0 ]; then
        report=$(sed 's/^/    /' "$log" | grep -av ' RUN \|      OK' | tail -n 40)
        failures=$(grep -a '^not ok \|^\[  FAILED  \] [a-z]' "$log" | cut -c 1-300)
        printf '%s\n' "${first:-}$report
$failures
FAIL $name, $took"
        printf '%s\n' "FAIL $name: $(echo "${failures:-$ended}" | paste -sd ';')" > "$log.failed"
    else
        [ -z "${FIGURES:-}" ] || case $test in *.sh) report=$(grep '^ok ' "$log"); [ -z "$report" ] || printf '%s\n' "$report" ;; esac
        echo "ok   $name: $passed passed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped"), $took"
    fi
    exit 0
fi

rm -rf "$BUILD/logs"
mkdir -p "$BUILD/logs"
TREE="tests/layers.sh tests/circles.sh tests/names.sh tests/prose.sh"
for t in ${SCRIPTS-$TREE tests/hub/*.sh tests/remote/*.sh tests/pty/*.sh tests/golden/*.sh} "$@"; do
    case " tests/remote/soak.sh $SKIP " in *" $t "*) continue ;; esac          # the soak takes an hour: by hand
    case $t in *.sh) [ -z "$EMULATOR" ] || [ "$t" = tests/golden/debug.sh ] || continue ;; esac       # the others start programs by themselves
    printf '%s\n' "$t"
done | awk 'NR == FNR {place[$1] = NR; next} {name = $0; sub(/^.*\/tests\//, "tests/", name); print (name in place ? place[name] : 1e6), $0}' \
    tests/slow.txt - | sort -s -n -k 1,1 | cut -d ' ' -f 2- > "$BUILD/logs/tests"
xargs -n 1 -P "$AT_ONCE" --process-slot-var=SLOT sh "$0" one < "$BUILD/logs/tests"
while read -r test; do          # xargs ends with the first process that a signal kills, as when memory runs out
    log=$(log_of "$test")
    [ -e "$log.count" ] || { echo "0 1 0" > "$log.count"; echo "FAIL ${test#"$BUILD"/}: was not run to its end" > "$log.failed"; }
done < "$BUILD/logs/tests"
cat "$BUILD"/logs/*.failed 2> /dev/null
cat "$BUILD"/logs/*.count | awk '{p += $1; f += $2; s += $3}
    END {printf "%d passed, %d failed%s\n", p, f, s ? ", " s " skipped" : ""; exit f > 0 || p == 0}'
