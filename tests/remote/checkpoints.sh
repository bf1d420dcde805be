#!/bin/sh
# Conversations of attached chats have checkpoints: the program that has the model writes and reads them, as an engine of their own would.
. tests/remote/serve.inc
. tests/pty/terminal.inc
[ -n "$demo" ] || { echo "skip checkpoints of attached chats need the demo model"; exit 0; }
job=
trap '[ -z "$job" ] || kill $job 2> /dev/null; end_server; rm -rf "$tmp"' EXIT
end_server() { [ -z "$server" ] || kill -9 $server 2> /dev/null; server=; }
serve_on() {    # OPTIONS: begin of serve.inc, whose name terminal.inc takes
    "$q" serve --model "$demo" "$@" 2>> "$tmp/serve.log" &
    server=$!
    for i in $(seq $((10 * patience))); do
        "$q" serve status > "$tmp/status" 2>&1 && grep -q "tokens of context" "$tmp/status" && return
        sleep 0.1
    done
}
stop_server() { "$q" serve stop > /dev/null; wait $server; server=; }
sessions=$XDG_STATE_HOME/q35chat/sessions
ask() {         # OPTIONS QUESTION
    timeout $patience "$q" --model "$demo" --no-stdin --temperature 0 --no-think --max-tokens 24 --json "$@" > "$tmp/out" 2> "$tmp/err" < /dev/null
    found=$?
}
part() {
    python3 -c 'import json, sys
v = json.load(open(sys.argv[1]))
print(*[v["tokens"][k] if k in v["tokens"] else v[k] for k in sys.argv[2:]])' "$tmp/out" "$@"
}
written() {     # NAME: waits for its checkpoint
    for i in $(seq $((10 * patience))); do [ -s "$sessions/$1.jsonl.checkpoint" ] && return; sleep 0.1; done
}
copies() { rm -rf "$tmp/copy" && mkdir -p "$tmp/copy" && cp -r "$XDG_STATE_HOME/q35chat" "$tmp/copy/"; }
local_too() { (XDG_STATE_HOME=$tmp/copy; export XDG_STATE_HOME; ask --no-attach "$@"; part cached prompt answer); }
long=$(seq 1 150 | tr '\n' ' ')

serve_on
ask --save talk "Read this: $long"
is "an attached chat that keeps its conversation is answered" "$found" 0
written talk
has "its checkpoint is listed" "$("$q" session list)" "(checkpoint "
is "... and its owner's alone" "$(stat -c %a "$sessions/talk.jsonl.checkpoint")" 600
ask -r talk "And now?"
[ "$(part cached)" -gt 500 ] && ok "the server still has what it computed" || bad "the server still has what it computed" "$(cat "$tmp/out")"
stop_server
copies
there=$(local_too -r talk "Once more?")
[ "${there%% *}" -gt 500 ] && ok "a chat with an engine of its own goes on from the file" ||
    bad "a chat with an engine of its own goes on from the file" "$there"
serve_on
ask -r talk "Once more?"
is "another server goes on from it as that does: tokens from the file, of the prompt, and the answer" "$(part cached prompt answer)" "$there"
lacks "... and has nothing to say of it" "$(cat "$tmp/err")" "checkpoint"

ask --save bare --no-checkpoint "Read this: $long"
ask -r bare --no-checkpoint "And now?"
sleep 0.5
is "with --no-checkpoint there is none" "$found $(ls "$sessions" | grep -c 'bare.*checkpoint')" "0 0"
mkdir "$tmp/elsewhere"
ask --save "$tmp/elsewhere/talk.jsonl" "Hello"
is "beside a conversation that is kept elsewhere there is none either" "$found $(ls "$tmp/elsewhere")" "0 talk.jsonl"

# What only the other q35chat may say, and what it may not.
asks post /q35chat/save "{\"id\": \"nobody\", \"conversation\": 1, \"path\": \"$sessions/talk.jsonl.checkpoint\"}" > "$tmp/out"
has "one that is not attached may not have a file written" "$(cat "$tmp/out")" "400 {\"error\": {\"message\": \"no q35chat of that name is attached\""
asks post /q35chat/save "{\"id\": \"nobody\", \"conversation\": 1, \"path\": \"/etc/passwd\"}" > "$tmp/out"
has "a path that is no checkpoint is refused" "$(cat "$tmp/out")" "/etc/passwd is not the checkpoint of a conversation"
asks post /q35chat/restore '{"id": "nobody", "conversation": 1}' > "$tmp/out"
has "... and so is none" "$(cat "$tmp/out")" "path is missing"

# Several at once: each its own file, each hears of its own.
stop_server
serve_on --conversations 3
for n in 1 2 3; do
    timeout $patience "$q" --model "$demo" --no-stdin --temperature 0 --no-think --max-tokens 24 --save "many$n" \
        "$n: $long" > "$tmp/many$n" 2>&1 < /dev/null &
    eval "job$n=$!"
done
wait $job1 $job2 $job3
stop_server
is "three at once have three files" "$(ls "$sessions" | grep -c 'many.*checkpoint$') $(cat "$tmp"/many? | grep -c 'not kept')" "3 0"

# Three chats stay attached and talk in turns, where two conversations are kept in memory: no token is computed that would not be with three.
say() {         # CHAT TEXT: waits for the answer
    before=$(grep -ac ' ctx ' "$tmp/screen$1")
    eval "printf '%s\\r' \"\$2\" >&$((5 + $1))"
    for i in $(seq $((10 * patience))); do [ "$(grep -ac ' ctx ' "$tmp/screen$1")" -gt "$before" ] && return; sleep 0.1; done
}
in_turns() {    # PLACES: prints how many tokens of prompts were computed
    serve_on --conversations "$1"
    for n in 1 2 3; do
        rm -f "$tmp/keys$n"
        mkfifo "$tmp/keys$n"
        : > "$tmp/screen$n"
        chat="$q --line --model $demo --temperature 0 --max-tokens 8 --no-think --no-read-ahead --tools none --save turns$1-$n"
        script -qefc "stty cols 80 rows 24; exec $chat" "$tmp/screen$n" < "$tmp/keys$n" > /dev/null 2>&1 &
        eval "chat$n=$! && exec $((5 + n))> $tmp/keys$n"
    done
    for round in 1 2 3; do
        for n in 1 2 3; do say $n "$n: $(seq -s ' ' 30) and $round"; done
    done
    for n in 1 2 3; do eval "printf '/quit\\r' >&$((5 + n)); exec $((5 + n))>&-; wait \$chat$n"; done
    asks get /metrics |
        awk '/^q35chat_prompt_tokens_total/ { all = $2 } /^q35chat_prompt_cached_tokens_total/ { there = $2 } END { print all - there }'
    stop_server
}
in_turns 3 > "$tmp/three"
in_turns 2 > "$tmp/two"
few=$(cat "$tmp/two") least=$(cat "$tmp/three")
if [ "$least" -gt 300 ] && [ "$few" -le "$least" ]; then
    ok "of three chats in turns, with two conversations in memory, no token is computed twice"
else
    bad "of three chats in turns, with two conversations in memory, no token is computed twice" "computed $few, with three $least"
fi

# In a terminal, /stats tells what came back and what was written, as locally.
model=$demo
serve_on
begin --no-think --tools none -r talk
seen "a chat in a terminal is attached" "attached to the model that another q35chat has loaded"
type 'A last one?\r'
seen "... and is answered" " ctx "
rests
type '/stats\r'
seen "/stats tells what was written of the checkpoint" "MB written"
seen "... and what came back from it" "tokens came back from it"
type '/quit\r'
seen "... and it ends" "status 0"
exec 3>&-
wait $job
job=

# Killed at any moment, client or server: the next one always goes on, and no answer that was told is lost.
kills=${KILLS:-6}
[ -z "$SAN" ] || kills=2
round=0
while [ $round -lt "$kills" ]; do
    round=$((round + 1))
    "$q" --model "$demo" --no-stdin --temperature 0 --no-think --max-tokens 24 -r talk "Round $round?" > "$tmp/said" 2> "$tmp/err" < /dev/null &
    job=$!
    if [ $((round % 2)) = 0 ]; then
        wait $job
        is "round $round: answered" $? 0
        kill -9 $server; wait $server 2> /dev/null      # while it saves, or just before or after
        serve_on
    else
        sleep "0.$((round % 10))"
        kill -9 $job 2> /dev/null; wait $job 2> /dev/null
    fi
    job=
done
ask -r talk "Are you there?"
is "after $kills kills of client and server the conversation goes on" "$found" 0
stop_server
is "... and all answers that were told are in it" "$("$q" session show talk 2> /dev/null | grep -c 'Round [0-9]*[02468]?')" $((kills / 2))
serve_on
ask -r talk "Still?"
lacks "... from a file that is whole" "$(cat "$tmp/err")" "damaged"
[ "$(part cached)" -gt 500 ] && ok "... and of use" || bad "... and of use" "$(cat "$tmp/out")"
exit $status
