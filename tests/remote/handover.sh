#!/bin/sh
# A chat that has loaded the model leaves while another is attached to it: its terminal is free at once, the other one goes on, and the model goes
# with the last who uses it.  Killed, it cannot do that: then the other one loads the model itself.
. tests/remote/serve.inc
. tests/pty/terminal.inc
trap 'exec 3>&- 4>&-; "$q" serve stop > /dev/null 2>&1; for p in $started; do kill $p 2> /dev/null; done; rm -rf "$tmp"' EXIT
started=
mkfifo "$tmp/keys2"

there() { for i in $(seq $((10 * patience))); do [ -S "$socket" ] && return; sleep 0.1; done; }
left() { for i in $(seq $((10 * patience))); do [ -e "$socket" ] || return 0; sleep 0.1; done; return 1; }
# The same as begin, type and seen of terminal.inc, in a second terminal.
begin_second() {
    : > "$tmp/screen2"
    at2=1
    script -qefc "stty cols 80 rows 24; exec $q --line --model $model --temperature 0 --max-tokens 24 --no-think --tools none $*" \
        "$tmp/screen2" < "$tmp/keys2" > /dev/null 2>&1 &
    job2=$!
    started="$started $job2"
    exec 4> "$tmp/keys2"
}
type_second() { printf "$1" >&4; }
on_second() { screen=$tmp/screen2 at=$at2; seen "$@"; at2=$at screen=$tmp/screen at=$at1; }
seen_second() { at1=$at; on_second "$@"; }
both() {        # FRONT: a chat that has the model, and one that is attached
    front=$1
    begin --no-think --tools none
    started="$started $job"
    there
    type 'Hello\r'
    seen "$front: a chat has loaded the model" " ctx "
    rm -f "$XDG_STATE_HOME"/q35chat/sessions/talk.*
    begin_second --save talk
    seen_second "$front: another one is attached" "attached to the model that another q35chat has loaded"
    type_second 'Hello\r'
    seen_second "$front: ... and is answered" " ctx "
}
# The conversation of the attached chat, in a program that loads the model by itself: answered from the checkpoint that what stayed has written.
comes_back() {  # NAME
    timeout $patience "$q" --no-attach --model "$model" --no-stdin --temperature 0 --max-tokens 24 --no-think --tools none --json -r talk \
        "And now?" > "$tmp/out" 2> "$tmp/err" < /dev/null
    python3 - "$tmp/out" > "$tmp/new" << 'END'
import json, sys
t = json.load(open(sys.argv[1]))["tokens"]
print(t["cached"], t["prompt"] - t["cached"])
END
    read -r cached new < "$tmp/new"
    if [ "${cached:-0}" -gt 0 ] && [ "$new" -lt "$cached" ]; then
        ok "$1: what stays of the first one has kept the other's conversation"
    else
        bad "$1: what stays of the first one has kept the other's conversation" "$(cat "$tmp/new" "$tmp/err" "$tmp/out")"
    fi
    lacks "$1: ... in a file of which there is nothing to say" "$(cat "$tmp/err")" checkpoint
}
goes_on() {     # NAME
    seen_second "$1: the other chat is told" "the chat that had loaded the model has left; it stays loaded while it is used"
    type_second 'Once more\r'
    seen_second "$1: ... and is answered" " ctx "
    "$q" serve status > "$tmp/status" 2>&1
    has "$1: ... by what stays of the first one" "$(cat "$tmp/status")" "tokens of context"
}

fronts="--line --tui" hows="TERM HUP"
[ -z "$SAN" ] || fronts=--tui hows=HUP             # slow
for front in $fronts; do
    both $front
    type '/quit\r'
    seen "$front: the chat that leaves says who stays" "1 other program uses the model: it stays loaded for it"
    seen "$front: ... and its terminal is free" "status 0"
    exec 3>&-
    wait $job
    goes_on "$front left"
    type_second '/quit\r'
    exec 4>&-
    wait $job2
    left && ok "$front: when the last one has gone, so has the model" || bad "$front: when the last one has gone, so has the model" "$socket is there"
    comes_back "$front left"
done

for how in $hows; do
    [ $how = TERM ] && front=--line code=143 || front=--tui code=129
    both $front
    kill -$how "$(cat "$tmp/pid")"
    seen "SIG$how: the chat ends by it" "status $code"
    exec 3>&-
    wait $job
    goes_on "SIG$how"
    "$q" serve stop > "$tmp/out" 2>&1
    is "SIG$how: serve stop ends what stayed" $? 0
    seen_second "SIG$how: ... and the other chat is told" "has ended: the next message loads it"
    type_second 'And again\r'
    seen_second "SIG$how: ... which loads the model itself" " ctx "
    type_second '/tree\r'
    seen_second "SIG$how: ... and has lost nothing" "Hello"
    type_second '/quit\r'
    exec 4>&-
    wait $job2
done

both --line
kill -9 "$(cat "$tmp/pid")"
seen_second "SIGKILL: the other chat is told" "has ended: the next message loads it"
type_second 'Once more\r'
seen_second "SIGKILL: ... and loads the model itself" " ctx "
exec 3>&-
wait $job
there
timeout $patience "$q" --model "$small" --no-stdin --verbose -n 4 hello > "$tmp/out" 2> "$tmp/err"
has "SIGKILL: ... which others may use from then on" "$(cat "$tmp/err")" "attached to the model that another q35chat has loaded"
type_second '/quit\r'
exec 4>&-
wait $job2

# A server that ends holds its lock until its memory is free.  A chat that begins meanwhile waits for that, and then shares its model as usual.
flock "$socket.lock" sleep 3 &
front=--line
begin --no-think --tools none
started="$started $job"
type 'Hello\r'
seen "a chat that begins while a server ends is answered" " ctx "
"$q" serve status > "$tmp/status" 2>&1
has "... and shares its model" "$(cat "$tmp/status")" "tokens of context"
type '/quit\r'
exec 3>&-
wait $job

flock "$socket.lock" sleep 3 &
"$q" serve --model "$model" 2> "$tmp/serve.log" &
server=$!
started="$started $server"
for i in $(seq $((10 * patience))); do
    kill -0 $server 2> /dev/null || break
    "$q" serve status > "$tmp/status" 2>&1
    grep -q "tokens of context" "$tmp/status" && break
    sleep 0.1
done
has "a server that begins while another ends waits for that, and answers" "$(cat "$tmp/status" "$tmp/serve.log")" "tokens of context"
"$q" serve stop > "$tmp/out" 2>&1
wait $server

# A server ends that two chats use: the first one that needs the model loads it and the other one attaches to that, also at the same time, and also
# while the server still ends.
for name in "SIGKILL of a server, one after the other" "SIGKILL of a server" "serve stop"; do
    pause= stop=
    case $name in *after*) pause=1 ;; esac
    front=--line
    "$q" serve --model "$model" 2> "$tmp/serve.log" &
    server=$!
    started="$started $server"
    for i in $(seq $((10 * patience))); do "$q" serve status 2> /dev/null | grep -q "tokens of context" && break; sleep 0.1; done
    begin --no-think --tools none
    started="$started $job"
    begin_second
    seen "$name: a chat is attached" "attached to the model that another q35chat has loaded"
    seen_second "$name: ... and another one" "attached to the model that another q35chat has loaded"
    case $name in
    SIGKILL*) kill -9 $server ;;
    *) "$q" serve stop > "$tmp/out" 2>&1 & stop=$! ;;
    esac
    seen "$name: the first one says so" "has ended: the next message loads it"
    seen_second "$name: ... and the other one" "has ended: the next message loads it"
    type 'Hello\r'
    [ -z "$pause" ] || seen "$name: a message loads the model" " ctx "
    type_second 'Hello\r'
    [ -n "$pause" ] || seen "$name: both messages are answered" " ctx "
    seen_second "$name: ... and the other chat is answered, too" " ctx "
    "$q" serve status > "$tmp/status" 2>&1
    has "$name: ... with the same model" "$(cat "$tmp/status")" "tokens of context"
    lacks "$name: ... which two programs use" "$(cat "$tmp/status")" "; 0 other"
    wait $server 2> /dev/null
    [ -z "$stop" ] || { wait $stop; is "$name: ... and the server has ended for who stopped it" "$? $(cat "$tmp/out")" "0 "; }
    type_second '/quit\r'
    exec 4>&-
    wait $job2
    type '/quit\r'
    exec 3>&-
    wait $job
    left        # what stays of the first one goes with the second, soon after it
done
exit $status
