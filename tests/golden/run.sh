#!/bin/sh
# Checks that tests/run.sh counts and names what fails, however it ends.
root=$PWD
. tests/pty/common.inc
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/tests"
cp "$root/tests/run.sh" "$root/tests/slow.txt" "$tmp/tests/"
cd "$tmp" || exit 1
runs() {        # NAME, the last line and the status, the failures; lines of the script follow
    name=$1 want=$2 failure=$3
    printf '%s\n' "$4" > tests/one.sh
    echo 'echo "ok fine"' > tests/two.sh
    SCRIPTS="tests/two.sh tests/one.sh" BUILD=$tmp/build EMULATOR= AT_ONCE=1 SKIP= sh tests/run.sh > out 2> err
    is "$name" "$? $(tail -n 1 out)" "$want"
    has "... is named" "$(cat out)" "$failure"
}
runs "a script that passes" "0 3 passed, 0 failed" "one.sh: 2 passed" 'echo "ok a"; echo "ok b"'
runs "a check that fails" "1 1 passed, 1 failed" "FAIL tests/one.sh: not ok a: b" 'echo "not ok a: b"'
runs "a script that ends with a status" "1 1 passed, 1 failed" "FAIL tests/one.sh: ended with status 3" 'exit 3'
runs "a script that is killed" "1 1 passed, 1 failed" "FAIL tests/one.sh: ended with status 137" 'kill -9 $$'
runs "a script that is no script" "1 1 passed, 1 failed" "FAIL tests/one.sh: ended with status 2" 'if; then'
runs "a script whose runner is killed" "1 1 passed, 1 failed" "FAIL tests/one.sh: was not run to its end" 'echo "ok a"; kill -9 $PPID'
runs "a script that is missing" "1 1 passed, 1 failed" "FAIL tests/one.sh: ended with status" 'rm tests/one.sh; exec sh tests/one.sh'

wrong=$(awk '/^tests/ {print $1, $2}' tests/slow.txt | while read -r test again; do
    [ -f "$root/$test" ] || [ -f "$root/$test.c" ] || echo "$test"
    case $again in once|asan|arm|asan,arm) ;; *) echo "$test $again" ;; esac
done)
is "each line of tests/slow.txt names a test, and where it runs again" "$wrong" ""
exit $status
