#!/bin/sh
# On a machine with a GPU: the measurements of docs/log/2026-11.md in one go, a line for each figure that has a goal.  Whole reports go to $OUT
# (build/gpu-report).  Nothing here passes or fails.
#
#     [BUILD=build] [OUT=DIR] [SMS=48] sh tests/bench/gpu.sh [PART...]
#
# Parts, all of them by default: recipes (tq4 against bf16), starved (the same with weights and KV rows in host memory), rows-starved (steps of
# one to eight rows: bytes and their share of the plain read; bytes of a draft; also with SMS=16), drafts, drafts-starved, answers (one to four at
# once), kernels, prompts (against another commit: compare.sh), resume (a conversation of 32,768 tokens comes back from its file;
# build/tests/golden/test_resume).  Synthetic 122B weights take 80 GB of the GPU's memory, starved ones of the host's.
BUILD=${BUILD:-build} OUT=${OUT:-build/gpu-report} SMS=${SMS:-48}
q=$BUILD/q35chat
mkdir -p "$OUT" || exit 1
bench() {
    name=$1
    shift
    "$q" bench "$@" > "$OUT/$name.txt" 2>&1 || { echo "$name: q35chat bench $* failed: $(tail -n 1 "$OUT/$name.txt")"; return 1; }
}
measure() {
    name=$1
    shift
    "$BUILD/tests/bench/measure" "$@" > "$OUT/$name.txt" 2>&1 || { echo "$name: measure $* failed: $(tail -n 1 "$OUT/$name.txt")"; return 1; }
}
line() { printf '%-62s %10s   goal %s\n' "$@"; }

# Speed-ups of tq4 over bf16 at some contexts: NAME, then CONTEXT=GOAL...
speed_ups() {
    name=$1
    shift
    for pair in "$@"; do
        line "$name: a step with tq4 against bf16 at ${pair%=*}" "$(awk -v at="${pair%=*}" '
            $1 == at && $2 == 1 && NF == 10 {ms[++n] = $3}
            END {if (n == 2) printf "%.3f", ms[1] / ms[2]; else print "-"}' \
            "$OUT/$name-bf16.txt" "$OUT/$name-tq4.txt")" "${pair#*=}"
    done
}
# Tokens a second of `--draft auto` with simulated drafts, in an answer after others and in one after an answer alike: NAME, the column and
# its meaning, then CHANCE=GOAL...
gains() {
    name=$1 column=$2 what=$3
    shift 3
    for after in others alike; do
        for pair in "$@"; do
            line "$name: auto against $what, each right with ${pair%=*}, after $after" "$(awk -v p="${pair%=*}" -v a=$after -v c="$column" \
                '$1 == p && $2 == a && NF == 12 {v = $c} END {print v ? v : "-"}' "$OUT/$name.txt")" "${pair#*=}"
        done
    done
}
recipes() {
    for kv in bf16 tq4; do bench recipes-$kv sweep --synthetic 122b --long --rows 1 --kv $kv || return; done
    speed_ups recipes 4096=0.99 32768=1.06 131072=1.2 261120=1.4
}
starved() {
    for kv in bf16 tq4; do
        bench starved-$kv sweep --synthetic 122b --long --rows 1 --sms "$SMS" --weights-in host --kv-in host --kv $kv || return
    done
    speed_ups starved 131072=1.3 261120=1.55
    line "starved: share of the plain read of a one-row step at 0" \
        "$(awk '$1 == 0 && $2 == 1 && NF == 10 {print $8 " %"}' "$OUT/starved-bf16.txt")" "96 %"
}
rows_starved() {
    bench rows-starved project --synthetic 122b --overlap 3 --sms "$SMS" --weights-in host --ctx 1200 || return
    measure rows-drafts drafts --synthetic 122b --overlap 3 --sms "$SMS" --weights-in host --ctx 1200 --chance 0.9 || return
    for n in 1 2 3 4 5 6 7 8; do
        line "rows-starved: share of the plain read of a step of $n rows, --sms $SMS" \
            "$(awk -v n=$n '$1 == 0 && $2 == n && NF == 7 {print $5 " %"}' "$OUT/rows-starved.txt")" "96 %"
    done
    line "rows-starved: GB of a one-row step at 0" "$(awk '$1 == 0 && $2 == 1 && NF == 7 {print $3}' "$OUT/rows-starved.txt")" 5.25
    line "rows-starved: GB of a draft" "$(awk '/^a draft/ {print $4 + $11}' "$OUT/rows-starved.txt")" 0.30
    line "rows-starved: share of the plain read of seven drafts, --sms $SMS" "$(awk '
        /^a draft/ {gb = $4 + $11}
        $1 == 0 && $2 == 1 && NF == 7 {read = $3 / $4 / $5}
        $1 == 0 && $2 == 8 && NF == 7 {ms = $4}
        $1 == 7 && NF == 3 {printf "%.1f %%", 7 * gb / ($2 - ms) / read}' "$OUT/rows-starved.txt" "$OUT/rows-drafts.txt")" "96 %"
}
drafts() {
    measure drafts drafts --synthetic 122b --overlap 3 && gains drafts 10 "the best fixed number" 0.3=0.97 0.7=0.97 0.8=0.97 0.9=0.97 0.95=0.97
}
drafts_starved() {
    measure drafts-starved drafts --synthetic 122b --overlap 3 --sms "$SMS" --weights-in host &&
        gains drafts-starved 9 "no drafts" 0.3=0.98 0.7=1.35 0.8=1.55 0.9=1.95 0.95=2.3
}
answers() {
    measure answers drafts --synthetic 122b --answers 4 --overlap 3 || return
    for n in 2 3 4; do
        line "answers: $n at once against one, no drafts" "$(awk -v n=$n '$1 == "off" && $2 == n {print $5}' "$OUT/answers.txt")" none
    done
}
kernels() { bench kernels kernels --synthetic 122b && echo "kernels: $OUT/kernels.txt"; }
prompts() {
    bench prompts sweep --synthetic 122b --rows 1 --depth 0 || return
    for pair in 128=3700 512=9700 2048=14900 8192=14400; do
        line "prompts: tokens a second of a prompt of ${pair%=*}" \
            "$(awk -v n="${pair%=*}" '$1 == n && NF == 5 {print $3}' "$OUT/prompts.txt")" "${pair#*=}"
    done
}
resume() {
    BACKEND=cuda "$BUILD/tests/golden/test_resume" > "$OUT/resume.txt" 2>&1 ||
        { echo "resume: test_resume failed: $(grep -m 1 FAILED "$OUT/resume.txt")"; return 1; }
    line "resume: ways in which 32,768 tokens came back the same" "$(grep -c ': the same$' "$OUT/resume.txt")" "12"
}

echo "== $(nvidia-smi --query-gpu=name --format=csv,noheader 2> /dev/null | head -n 1), reports in $OUT"
for part in ${@:-recipes starved rows-starved drafts drafts-starved answers kernels prompts resume}; do
    case $part in
    recipes | starved | drafts | answers | kernels | prompts | resume) $part ;;
    rows-starved) rows_starved ;;
    drafts-starved) drafts_starved ;;
    *) echo "there is no part '$part', only recipes, starved, rows-starved, drafts, drafts-starved, answers, kernels, prompts, resume" >&2; exit 2 ;;
    esac
done
