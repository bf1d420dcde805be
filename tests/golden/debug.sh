#!/bin/sh
# Feeds every golden file through `q35chat debug` and compares the answers with tests/golden/compare.c.
# Prints one "ok" line with a figure per comparison; `make figures` shows them as the table of docs/testing-reference.md.
# BACKEND=cuda runs only the checkpoints, on the GPU, with the bounds of a backend that rounds.
# EMULATOR=qemu-aarch64 runs only one checkpoint, the one with weights of every format, to save time; SAN=address the two of that kind.
# SANITIZE=memcheck (or racecheck, synccheck, initcheck) runs them under compute-sanitizer; CHECKPOINTS="g0/bf16 ..." only these.
BUILD=${BUILD:-build}
BACKEND=${BACKEND:-cpu}
SANITIZE=${SANITIZE:-}
SANITIZER=${SANITIZER:-compute-sanitizer}
EMULATOR=${EMULATOR:-} SAN=${SAN:-}
q=$BUILD/q35chat data=tests/data/golden vocab=$BUILD/data/tokenizer
all="g0/bf16 g0/int4 g0/hybrid g1/int4 g1/hybrid"
[ -z "$SAN" ] || all="g0/hybrid g1/hybrid"
checkpoints=${CHECKPOINTS:-$all} m= how=
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
status=0

run() {         # the program; the sanitizer's own words go to a file
    if [ -n "$SANITIZE" ]; then
        "$SANITIZER" --tool "$SANITIZE" --error-exitcode 99 --log-file "$tmp/sanitizer.log" "$q" "$@"
    else
        $EMULATOR "$q" "$@"
    fi
}

compare() {
    $EMULATOR "$BUILD/tests/golden/compare" "$@"
}

debug() {       # says so when the program fails, since the comparison only sees what it printed
    ran=0
    run debug "$@" || ran=$?
    [ $ran -eq 0 ] || echo "# q35chat debug $1 ended with status $ran" >&2
    sanitized "$1 $m${how:+ $how}" >&3
}

sanitized() {   # WHAT
    [ -n "$SANITIZE" ] || return 0
    said=$(grep -h 'ERROR SUMMARY\|RACECHECK SUMMARY' "$tmp/sanitizer.log" | tail -n 1)
    case $ran:$said in          # a program that was killed had no hazards either
    0:*'SUMMARY: 0 '*)
        echo "ok $SANITIZE of debug $1:${said#*SUMMARY:}" ;;
    *)
        : > "$tmp/unclean"
        echo "not ok $SANITIZE of debug $1:${said#*SUMMARY:}"
        head -n 40 "$tmp/sanitizer.log" ;;
    esac
    rm -f "$tmp/sanitizer.log"
}

check() {       # NAME COMMAND...: the command prints the figure
    name=$1
    shift
    if figure=$("$@" 2> "$tmp/why"); then
        echo "ok $name: $figure"
    else
        status=1
        echo "not ok $name: $figure"
        head -n 5 "$tmp/why"
    fi
}

texts() {       # what needs no model
    mkdir -p "$vocab"
    if [ ! -s "$vocab/tokenizer.json" ]; then
        xz -dkc tests/data/tokenizer/tokenizer.json.xz > "$tmp/tokenizer.json" && mv "$tmp/tokenizer.json" "$vocab/tokenizer.json"
    fi
    cp tests/data/tokenizer/tokenizer_config.json "$vocab/"

    debug tokenize --model "$vocab" < $data/tokenizer.jsonl > "$tmp/out"
    check "debug tokenize" compare tokenize $data/tokenizer.jsonl "$tmp/out"
    debug render --model "$vocab" < $data/chat_template.jsonl > "$tmp/out"
    check "debug render" compare render $data/chat_template.jsonl "$tmp/out"
    debug parse < $data/tool_calls.jsonl > "$tmp/out"
    check "debug parse" compare parse $data/tool_calls.jsonl "$tmp/out"
}

models() {      # LOGITS DRAFT GENERATE: names of the comparisons; then ways to compute logits, one argument each
    logits=$1 draft=$2 generate=$3
    shift 3
    for m in $checkpoints; do
        dir=tests/data/model/$m expected=tests/data/model/$m/expected.safetensors
        compare prompts "$expected" > "$tmp/prompts"
        rm -f "$tmp"/logits*
        for how; do
            debug logits --model "$dir" --out "$tmp/logits$how" $on $how < "$tmp/prompts" > "$tmp/out"
            check "debug logits $m$with${how:+ $how}" compare "$logits" "$expected" "$tmp/logits$how"
        done
        how=
        debug draft --model "$dir" $on < "$tmp/prompts" > "$tmp/out"
        check "debug draft $m$with" compare "$draft" "$expected" "$tmp/out"
        for depth in 0 1 2 3; do compare greedy "$expected" $depth; done > "$tmp/in"
        debug generate --model "$dir" $on < "$tmp/in" > "$tmp/out"
        check "debug generate $m$with, depth 0 to 3" compare "$generate" "$expected" "$tmp/out"
        agreement
    done
}

# Rows of a step have the bits of single steps; prompt chunks come close to them.
agreement() {
    for how in "" "--chunk 33"; do
        [ -s "$tmp/logits--step" ] && [ -s "$tmp/logits$how" ] && [ -n "$close" ] || continue
        check "$m$with: ${how:-whole prompt} and token by token" compare agree "$tmp/logits--step" "$tmp/logits$how"
    done
    for n in 2 3 4 5 6 7 8; do
        [ -s "$tmp/logits--step" ] && [ -s "$tmp/logits--step --rows $n" ] || continue
        check "$m$with: steps of $n rows and of one" compare same "$tmp/logits--step" "$tmp/logits--step --rows $n"
    done
}

# Under racecheck each line runs in its own process, since the tool accumulates tens of GiB of host memory.  Long prompts are computed in
# chunks, only short ones in steps.
races() {
    for m in $checkpoints; do
        dir=tests/data/model/$m expected=tests/data/model/$m/expected.safetensors
        compare prompts "$expected" > "$tmp/prompts"
        for depth in 0 3; do compare greedy "$expected" $depth; done | sed 's/"max_tokens": [0-9]*/"max_tokens": 8/' > "$tmp/greedy"
        for how in "" "--chunk 33"; do
            debug logits --model "$dir" --out "$tmp/logits" $on $how < "$tmp/prompts" > "$tmp/out"
        done
        awk 'gsub(",", ",") < 10' "$tmp/prompts" > "$tmp/short"
        for how in "--step" "--step --rows 2" "--step --rows 3" "--step --rows 4" "--step --rows 8"; do
            lines=0
            while read -r line; do
                lines=$((lines + 1))
                echo "$line" > "$tmp/line"
                debug logits --model "$dir" --out "$tmp/logits" $on $how < "$tmp/line" > "$tmp/out"
            done < "$tmp/short"
            [ $lines -gt 0 ] || { status=1; echo "not ok $m has no prompt of at most ten tokens"; }
        done
        while read -r line; do
            echo "$line" > "$tmp/line"
            how="{${line##*], }"
            debug generate --model "$dir" $on < "$tmp/line" > "$tmp/out"
        done < "$tmp/greedy"
    done
}

exec 3>&1
on= with= close=
case $BACKEND${EMULATOR:+ emulated} in
'cpu emulated')
    checkpoints=g0/hybrid
    texts
    models logits draft generate "" ;;
cpu)
    texts
    models logits draft generate "" "--chunk 33" "--step"
    on="--kv bf16" with=" with bf16 rows" close=1
    models kl draft-close generate-close "" "--chunk 33" "--step" "--step --rows 5" ;;
*)
    on="--backend $BACKEND --kv bf16" with=" on $BACKEND" close=1
    set -- "" "--chunk 33" "--step" "--step --rows 2" "--step --rows 3" "--step --rows 4" "--step --rows 5" "--step --rows 6" "--step --rows 7" \
        "--step --rows 8"
    case $SANITIZE in
    '')        models kl draft-close generate-close "$@" ;;
    racecheck) races ;;
    *)         models kl draft-close generate-close "" "--step" "--step --rows 2" "--step --rows 3" ;;      # ten to a hundred times slower
    esac ;;
esac
[ ! -e "$tmp/unclean" ] || status=1
exit $status
