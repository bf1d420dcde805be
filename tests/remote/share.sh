#!/bin/sh
# A chat that is open lets other programs use its model: a pipe in a second terminal attaches, the person goes first, and the chat's end breaks
# nothing off.
. tests/remote/serve.inc
. tests/pty/terminal.inc
job=
trap '[ -z "$job" ] || kill $job 2> /dev/null; rm -rf "$tmp"' EXIT
pipe() { timeout 300 sh -c 'echo $$ > "$0"; exec "$@"' "$tmp/pipe.pid" "$q" --model "$small" --no-stdin $endless --verbose \
    "$@" hello > "$tmp/out" 2> "$tmp/err"; found=$?; }
there() { for i in $(seq $((10 * patience))); do [ -S "$socket" ] && return; sleep 0.1; done; }
# A long answer takes some seconds, on a fast machine, too.
pipe --no-attach --max-tokens 300 --json
many="--max-tokens $(python3 -c 'import json, sys; print(max(600, min(2000, int(3 * json.load(open(sys.argv[1]))["tok_per_s"]))))' "$tmp/out")"
begins() {      # a long answer for a pipe is under way; one that has ended before a busy machine saw it does not count
    for i in $(seq $patience); do
        pipe $many &
        other=$!
        while kill -0 $other 2> /dev/null; do [ "$(figure running)" = 1 ] && return; sleep 0.1; done
        wait $other
    done
}
answered() {    # MESSAGE: its answer has ended
    for i in $(seq $((10 * patience))); do
        sed -n "/$1/,\$p" "$(ls -t "$XDG_STATE_HOME"/q35chat/sessions/*.jsonl | head -n 1)" | grep -q '"role":"assistant"' &&
            [ "$(figure running)" = 0 ] && return
        sleep 0.1
    done
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
    is "$front: serve stop does not end it" "$? $(cat "$tmp/out")" \
        "1 q35chat: the server at $socket refuses: the model belongs to a chat that is open, and ends with it"
    for i in $(seq 10); do              # the answer may have ended while a busy machine typed
        begins
        type 'Once more\r'
        seen "$front: the person asks in the middle of an answer for a pipe" "Once more"
        seen "$front: ... and is answered" " ctx "
        [ $front = --line ] && ! kill -0 $other 2> /dev/null || break
    done
    # Not on the full screen, which is not drawn anew.
    [ $front = --tui ] || is "$front: ... before that one has come to its end" "$(kill -0 $other 2>&1 && echo under way)" "under way"
    type 'And again\r'
    wait $other
    is "$front: ... which then is the one that it would be alone" "$(cat "$tmp/out")" "$many_alone"
    answered 'And again'
    for i in $(seq 10); do begins; kill -STOP "$(cat "$tmp/pipe.pid")" 2> /dev/null && break; done      # it stays under way
    type '/quit\r'
    seen "$front: the end does not break off what is under way" "1 other program uses the model: it stays loaded for it"
    kill -CONT "$(cat "$tmp/pipe.pid")"
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

serves() {
    "$q" serve --model "$small" 2> "$tmp/serve.log" &
    server=$!
    for i in $(seq $((10 * patience))); do "$q" serve status 2> /dev/null | grep -q "tokens of context" && break; sleep 0.1; done
}
loses_its_server() {    # WHAT HOLDS, the sentence that the chat says then
    seen "$1" "attached to the model that another q35chat has loaded"
    type 'Hello\r'
    seen "... and is answered" " ctx "
    kill -9 $server
    wait $server 2> /dev/null
    seen "... when the server is killed it says so" "$2"
}
has_all() {             # that was said; then it ends
    type '/tree\r'
    seen "... nothing of the conversation is lost" "Hello"
    type '/quit\r'
    exec 3>&-
    wait "$job"
    job=
}

# The server is killed: a chat that was attached goes on with a model of its own, at its next message.
serves
front=--line
begin --no-think --tools none
loses_its_server "a chat attaches" "the q35chat that had loaded the model has ended: the next message loads it"
type 'Once more\r'
seen "... then loads the model itself and answers" " ctx "
there
pipe --max-tokens 20
is "... which others may use from then on" "$(cat "$tmp/out")" "$alone"
has_all

# The same where the server is an endpoint: no model is loaded here, and when the server is back, the conversation goes on.
serves
begin --no-think --tools none --endpoint "unix:$socket" --model "''"
loses_its_server "a chat has the socket for an endpoint" "the q35chat that answers has ended: the next message asks for it again"
type 'Anybody?\r'
seen "... a message that finds nobody fails with a sentence" "no server listens on the socket"
serves
type 'Once more\r'
seen "... and is answered when the server is back" " ctx "
has_all
"$q" serve stop > /dev/null
exit $status
