#!/bin/sh
# A chat that is open lets other programs use its model: a pipe in a second terminal attaches, the person goes first, and the chat's end breaks
# nothing off.
. tests/remote/serve.inc
. tests/pty/terminal.inc
job=
trap '[ -z "$job" ] || kill $job 2> /dev/null; rm -rf "$tmp"' EXIT
pipe() { timeout 300 "$q" --model "$small" --no-stdin $endless --verbose "$@" hello > "$tmp/out" 2> "$tmp/err"; found=$?; }
there() { for i in $(seq $((10 * patience))); do [ -S "$socket" ] && return; sleep 0.1; done; }
# A long answer takes some seconds, on a fast machine, too.
pipe --no-attach --max-tokens 300 --json
many="--max-tokens $(python3 -c 'import json, sys; print(max(600, min(2000, int(3 * json.load(open(sys.argv[1]))["tok_per_s"]))))' "$tmp/out")"
begins() {      # a long answer for a pipe is under way
    pipe $many &
    other=$!
    for i in $(seq $patience); do [ "$(figure running)" = 1 ] && return; sleep 0.2; done
}

pipe --no-attach --max-tokens 20
alone=$(cat "$tmp/out")
pipe --no-attach $many
many_alone=$(cat "$tmp/out")
for front in --line --tui; do
    begin --no-think --tools none
    there
    pipe --max-tokens 20
    has "$front: a pipe uses the model of the open chat" "$(cat "$tmp/err")" "attached to the model that another q35chat has loaded"
    is "$front: ... and says the same as alone" "$(cat "$tmp/out")" "$alone"
    type 'Hello\r'
    seen "$front: the chat answers as ever" " ctx "
    "$q" serve stop > "$tmp/out" 2>&1
    has "$front: serve stop does not end it" "$? $(cat "$tmp/out")" "belongs to a chat that is open"
    begins
    type 'Once more\r'
    seen "$front: the person asks in the middle of an answer for a pipe" "Once more"
    seen "$front: ... and is answered" " ctx "
    [ $front = --tui ] || is "$front: ... before that one has come to its end" "$(kill -0 $other && echo under way)" "under way"     # a screen is not drawn anew
    type 'And again\r'
    wait $other
    is "$front: ... which then is the one that it would be alone" "$(cat "$tmp/out")" "$many_alone"
    begins
    type '/quit\r'
    seen "$front: the end does not break off what is under way" "1 other program uses the model: it stays loaded for it"
    exec 3>&-
    wait "$job"
    ok "$front: ... for which the terminal does not wait"
    wait $other
    is "$front: ... and which comes whole" "$(cat "$tmp/out")" "$many_alone"
    for i in $(seq $((10 * patience))); do [ -e "$socket" ] || break; sleep 0.1; done
    [ ! -e "$socket" ] && ok "$front: then the socket is gone" || bad "$front: then the socket is gone" "$socket"
done

front=--line
begin --no-think --tools none --no-share
seen "without --share the chat is there" "> "
pipe --max-tokens 20
lacks "... and nobody attaches" "$(cat "$tmp/err")" "attached"
type '/quit\r'
exec 3>&-
wait "$job"
job=

# The server is killed: a chat that was attached goes on with a model of its own, at its next message.
"$q" serve --model "$small" 2> "$tmp/serve.log" &
server=$!
for i in $(seq $((10 * patience))); do "$q" serve status 2> /dev/null | grep -q "tokens of context" && break; sleep 0.1; done
front=--line
begin --no-think --tools none
seen "a chat attaches" "attached to the model that another q35chat has loaded"
type 'Hello\r'
seen "... and is answered" " ctx "
kill -9 $server
wait $server 2> /dev/null
seen "... when the server is killed it says so" "the q35chat that had loaded the model has ended: the next message loads it here"
type 'Once more\r'
seen "... then loads the model itself and answers" " ctx "
there
pipe --max-tokens 20
is "... which others may use from then on" "$(cat "$tmp/out")" "$alone"
type '/tree\r'
seen "... nothing of the conversation is lost" "Hello"
type '/quit\r'
exec 3>&-
wait "$job"
job=
exit $status
