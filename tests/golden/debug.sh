#!/bin/sh
# Feeds every golden file through `q35chat debug` and compares the answers with tests/golden/compare.c.
# Prints one "ok" line with a figure per comparison; `make figures` shows them as the table of docs/testing.md.
BUILD=${BUILD:-build}
q=$BUILD/q35chat compare=$BUILD/tests/golden/compare data=tests/data/golden vocab=$BUILD/data/tokenizer
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
status=0

debug() {       # the program; says so when it fails, since the comparison only sees what it printed
    "$q" debug "$@" || echo "# q35chat debug $1 ended with status $?" >&2
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

mkdir -p "$vocab"
if [ ! -s "$vocab/tokenizer.json" ]; then
    xz -dkc tests/data/tokenizer/tokenizer.json.xz > "$tmp/tokenizer.json" && mv "$tmp/tokenizer.json" "$vocab/tokenizer.json"
fi
cp tests/data/tokenizer/tokenizer_config.json "$vocab/"

debug tokenize --model "$vocab" < $data/tokenizer.jsonl > "$tmp/out"
check "debug tokenize" "$compare" tokenize $data/tokenizer.jsonl "$tmp/out"
debug render --model "$vocab" < $data/chat_template.jsonl > "$tmp/out"
check "debug render" "$compare" render $data/chat_template.jsonl "$tmp/out"
debug parse < $data/tool_calls.jsonl > "$tmp/out"
check "debug parse" "$compare" parse $data/tool_calls.jsonl "$tmp/out"

for m in g0/bf16 g0/int4 g0/hybrid g1/int4 g1/hybrid; do
    dir=tests/data/model/$m expected=tests/data/model/$m/expected.safetensors
    "$compare" prompts "$expected" > "$tmp/prompts"
    for how in "" "--chunk 33" "--step"; do
        debug logits --model "$dir" --out "$tmp/logits" $how < "$tmp/prompts" > "$tmp/out"
        check "debug logits $m${how:+ $how}" "$compare" logits "$expected" "$tmp/logits"
    done
    debug draft --model "$dir" < "$tmp/prompts" > "$tmp/out"
    check "debug draft $m" "$compare" draft "$expected" "$tmp/out"
    for depth in 0 1 2 3; do "$compare" greedy "$expected" $depth; done > "$tmp/in"
    debug generate --model "$dir" < "$tmp/in" > "$tmp/out"
    check "debug generate $m, depth 0 to 3" "$compare" generate "$expected" "$tmp/out"
done
exit $status
