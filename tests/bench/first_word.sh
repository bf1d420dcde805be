#!/bin/sh
# Enter to the first word of the answer, on the full screen with the demo model: `RUNS` times each (5), the middle one counts.
# The goal is 0.2 s for "hello".  Figures are for reading; nothing here passes or fails.
. tests/pty/common.inc
. tests/pty/wire.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
runs=${RUNS:-5}

message='I have a question about numbers'
for i in $(seq 1 40); do message="$message and one more about the number $i"; done
halves() {
    printf 'type %s\n' "$(echo "$message" | cut -c 1-800)"
    echo 'sh a pause: sleep 2'
    printf 'type %s\n' "$(echo "$message" | cut -c 801-)"
}

once() {        # OPTIONS < LINES: what is done between ready and Enter
    forget
    { echo 'see ready: ready'; cat; echo mark; echo 'type \r'; echo 'took the first word:  answering '; } > script
    at 80x24 --no-think --no-save --logit-bias 4063=-inf --logit-bias 4065=-inf --no-loop-guard "$@" < script |
        sed -n 's/^ok the first word: \([0-9]*\) ms/\1/p; /^not ok/,$p'
}
middle() {      # NAME OPTIONS < LINES
    name=$1
    shift
    cat > lines
    for i in $(seq $runs); do once "$@" < lines; done | sort -n > times
    printf '%-58s %5s ms (%s to %s)\n' "$name" "$(sed -n "$((($(wc -l < times) + 1) / 2))p" times)" "$(head -n 1 times)" "$(tail -n 1 times)"
}

echo "== first word, 80x24, load $(cut -d ' ' -f 1 /proc/loadavg)"
echo 'type hello' | middle '"hello", nothing read ahead' --no-read-ahead
printf 'sh a pause: sleep 2\ntype hello\n' | middle '"hello", two seconds after ready'
halves | middle "$(echo "$message" | wc -w) words, nothing read ahead" --no-read-ahead
{ halves; echo 'sh a pause: sleep 3'; } | middle '... typed, with three seconds before Enter'
