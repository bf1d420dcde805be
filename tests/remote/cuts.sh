#!/bin/sh
# Answers whose call was cut off, through the real program: a client of the server gets arguments that are no JSON, and our own program runs nothing,
# with the same words, whether it has the model itself, is a pipe of the server, an attached chat, or has the server as an endpoint.
. tests/remote/serve.inc
[ -n "$demo" ] || { echo "skip these answers need the demo model"; exit 0; }
mkdir -p "$XDG_CONFIG_HOME/q35chat"
echo "tool_guide = off" > "$XDG_CONFIG_HOME/q35chat/q35chat.conf"        # a guided call is never left by the model
begin "$demo"
is "a call is JSON only if it is whole" "$(asks cuts)" cut

question="What is 12*12? Use the calculator."
tries() {       # WHERE...: what came of the answer, without what differs from place to place
    for end in "-n 14" "-n 20" "-n 60 --logit-bias <|im_end|>=12 --logit-bias 220=-inf" "-n 300"; do
        rm -f "$XDG_STATE_HOME"/q35chat/sessions/*
        timeout $patience "$q" "$@" --no-stdin --no-think --temperature 0 --tools calculator $end --jsonl "$question" \
            > "$tmp/out" 2> "$tmp/err" < /dev/null
        echo "status $?"
        grep -aE '"type":"(tool_call|tool_result|end)"' "$tmp/out" | sed 's/,"t":[0-9.]*//; s/,"tokens".*"exit"/ "exit"/'
        grep -h -c '"calls"' "$XDG_STATE_HOME"/q35chat/sessions/talk.jsonl 2> /dev/null
        cat "$tmp/err"
    done
}
tries --no-attach --model "$demo" > "$tmp/local"
is "three of four answers are cut off within their call" "$(grep -c '"truncated":true' "$tmp/local")" 3
is "... whose call is not run" "$(grep -c '"tool_result"' "$tmp/local")" 1
has "... also if the model itself ended" "$(cat "$tmp/local")" "the model broke off in the middle of a tool call"
is "a pipe refuses the same" "$(tries --model "$demo")" "$(cat "$tmp/local")"
[ -n "$SAN" ] || is "so does one with an endpoint" "$(tries --endpoint "unix:$socket")" "$(cat "$tmp/local")"
tries --no-attach --model "$demo" --save talk > "$tmp/local"
is "a conversation has none of these calls" "$(grep -cx 1 "$tmp/local")" 1
is "an attached chat refuses the same" "$(tries --model "$demo" --save talk)" "$(cat "$tmp/local")"

counted() { timeout $patience "$q" "$@" --no-stdin --temperature 0 --stop = --json "What is 6*7?" | grep -o '"prompt":[0-9]*'; }
is "a pipe that ends its answer itself knows how long the prompt was" "$(counted --model "$demo")" "$(counted --no-attach --model "$demo")"

is "a server that is killed leaves no call that looks whole" "$(asks killed $server)" "no JSON"
exit $status
