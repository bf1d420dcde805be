#!/bin/sh
# A program says what it would say alone, whatever the options of the server or the chat that answers it: over the socket of a server, beside an open
# chat, and when that chat has left.  tests/unit/test_apart.c does it with each option.
. tests/remote/serve.inc
. tests/pty/terminal.inc
[ -n "$demo" ] || { echo "skip these answers need the demo model"; exit 0; }
job= other=
trap 'exec 3>&-; "$q" serve stop > /dev/null 2>&1; for p in $job $server $other; do kill $p 2> /dev/null; done; rm -rf "$tmp"' EXIT
there() { for i in $(seq $((10 * patience))); do [ -S "$socket" ] && return; sleep 0.1; done; }
says() {        # OPTIONS...: a pipe with the values of the model itself, but for the seed
    timeout $patience "$q" --model "$demo" --no-stdin --seed 5 --verbose "$@" "Tell me a story" > "$tmp/out" 2> "$tmp/err" < /dev/null
    echo "$? $(cat "$tmp/out")"
}
compare() {     # WHERE
    is "$1: a pipe says what it says alone" "$(says)" "$alone"
    has "$1: ... and was answered there" "$(cat "$tmp/err")" "attached to the model that another q35chat has loaded"
    rm -f "$XDG_STATE_HOME"/q35chat/sessions/*
    is "$1: so does a program that keeps its conversation" "$(says --save talk)" "$alone"
    is "$1: an option of its own counts" "$(says -n 3 --no-think)" "$alone_short"
}
# Each of these would show in the answer.
others="--max-tokens 3 --stop e --logit-bias 104=-inf --think-budget 2 --temperature 3 --top-p 1 --top-k 0 --min-p 0.5 --presence-penalty 2
    --repetition-penalty 1.5 --preset coding --begin No --system Shout --seed 9"
set -f
alone=$(says --no-attach)
alone_short=$(says --no-attach -n 3 --no-think)
set +f

mkdir -p "$tmp/other/q35chat"          # a config file that the server alone reads
echo "$others" | tr '\n' ' ' | sed 's/ --/\n/g; s/^ *--//' | sed 's/ / = /; s/^\(.[a-z]*\)-/\1_/' > "$tmp/other/q35chat/q35chat.conf"
XDG_CONFIG_HOME=$tmp/other "$q" serve --model "$demo" 2> "$tmp/serve.log" &
server=$!
there
compare "a server with options"
has "what a request leaves open is as the server has it" \
    "$(asks post /v1/chat/completions '{"messages": [{"role": "user", "content": "Tell me a story"}]}')" '"truncated": "limit"'
kill $server
wait $server
server=

model=$demo
begin $others --tools none
there
seen "a chat with options is open" "> "
compare "an open chat"
lacks "what a request leaves open is not as the chat has it" "$(asks post /v1/chat/completions \
    '{"messages": [{"role": "user", "content": "Tell me a story"}], "temperature": 0, "chat_template_kwargs": {"enable_thinking": false}}')" \
    '"truncated"'
type 'Hello\r'
seen "the chat has its own answer" " 1 tok "

timeout 300 "$q" --model "$demo" --no-stdin --no-think --no-loop-guard --logit-bias '<|im_end|>=-inf' --logit-bias '<|endoftext|>=-inf' Hello \
    > /dev/null 2>&1 < /dev/null &
other=$!
for i in $(seq $((10 * patience))); do [ "$(figure running)" = 1 ] && break; sleep 0.1; done
type '/quit\r'
seen "the chat leaves, and the model stays" "stays loaded for it"
exec 3>&-
wait $job
job=
compare "a chat that has left"
kill $other 2> /dev/null
wait $other 2> /dev/null
other=
exit $status
