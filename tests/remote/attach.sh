#!/bin/sh
# Programs that find a running server use its model; a server on a port wants its key.
. tests/remote/serve.inc
[ -n "$demo" ] || { echo "skip attaching needs the demo model"; exit 0; }
one() { timeout $patience "$q" --model "$demo" --no-stdin --temperature 0 --no-think "$@" hello > "$tmp/out" 2> "$tmp/err"; found=$?; }
served() { figure requests_total; }

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
begin "$demo" --listen 127.0.0.1:$port --ctx 32768
one
is "a program is answered by the server that runs" "$found $(served)" "0 1"
is "... and a pipe says nothing of it" "$(cat "$tmp/err")" ""
there=$(cat "$tmp/out")
one --verbose
has "... unless it is asked" "$(cat "$tmp/err")" "attached to the model that another q35chat has loaded"
one --no-attach
is "--no-attach loads the model" "$found $(served)" "0 2"
is "... which says the same" "$(cat "$tmp/out")" "$there"
one --ctx 1000
is "so do other options of the engine" "$found $(served)" "0 2"
has "... with a sentence" "$(cat "$tmp/err")" "another q35chat has loaded this model with ctx=32768 instead of ctx=1000, so it is loaded here as well"
one --ctx 32k --threads 1
has "... about what differs" "$(cat "$tmp/err")" \
    "has loaded this model with the default of threads instead of threads=1, so it is loaded here as well"
one --ctx 32k
is "... which are compared by their values: 32k is 32768" "$found $(served)" "0 3"
one --ctx 0 --kv "" --weights-in auto --snapshots 00
is "... and a default is none" "$found $(served)" "0 4"
one --prompt-math exact
is "... also one that has a name" "$found $(served)" "0 5"
one --prompt-math int8
is "... and another choice is not" "$found $(served)" "0 5"
timeout $patience "$q" --model "$small" --no-stdin -n 4 hello > "$tmp/out" 2>&1
is "so does another model" "$? $(served)" "0 5"
one --no-vision
is "an option that comes too late for a loaded model is named" "$found $(served) $(cat "$tmp/err")" "0 6 q35chat: another q35chat has loaded this \
model, so --no-vision has no effect; --no-attach loads the model here as well"
one --logit-bias "Hello=-inf"
is "a bias by text reaches the server" "$found $(served)" "0 7"
lacks "... and counts" "$(cat "$tmp/out")" "Hello"
one --logit-bias "two tokens=-inf"
has "what the server refuses is told in its words" "$(cat "$tmp/err")" "tokens, expected one"
timeout $patience "$q" --model "$demo" --no-stdin --temperature 0 --think-budget 3 --json "What is 17*23?" > "$tmp/out" 2> "$tmp/err"
[ "$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["reasoning"]))' "$tmp/out")" -lt 20 ] &&
    ok "so does a budget of reasoning" ||
    bad "so does a budget of reasoning" "$(cat "$tmp/out")"

# A program that finds no model itself, not even the demo beside it.
if [ ! -d /usr/local/share/q35chat/demo ]; then
    mkdir "$tmp/alone"
    cp "$q" "$tmp/alone/q35chat"
    (cd "$tmp" && timeout $patience alone/q35chat --no-stdin --temperature 0 --no-think hello > out 2> err)
    is "without a model here it is the server's that answers" "$? $(cat "$tmp/out")" "0 $there"
    (cd "$tmp" && timeout $patience alone/q35chat --no-attach --no-stdin hello > out 2> err)
    is "... and without a server it is told where one was looked for" "$? $(grep -c 'no model is on this machine' "$tmp/err")" "3 1"
fi

kill -STOP $server
one
is "a server that is suspended keeps nobody waiting for ever, and a pipe loads no second model" "$found $(cat "$tmp/out")" "3 "
has "... with a sentence" "$(cat "$tmp/err")" "the q35chat at $socket does not answer, perhaps it is suspended"
has "... and what can be done" "$(cat "$tmp/err")" "load the model here as well with --no-attach"
one --no-attach
is "... which answers" "$found $(cat "$tmp/out")" "0 $there"
second() { timeout $patience python3 tests/remote/second.py "$@" --model "$demo" --temperature 0 --no-think; }
has "on a terminal it is asked whether the model is loaded again: yes" "$(second y "$q" hello)" "0 y $there"
has "... no" "$(second n "$q" hello)" "3 n q35chat: the q35chat at $socket does not answer"
has "... and before a chat is a screen" "$(second n "$q" --tui)" "3 n q35chat: the q35chat at $socket does not answer"
kill -CONT $server

# The socket as an endpoint.
timeout $patience "$q" --endpoint "unix:$socket" --no-stdin --temperature 0 --no-think -t 2 --kv tq4 --draft 2 hello > "$tmp/out" 2> "$tmp/err"
is "a pipe is answered by the endpoint, too" "$? $(cat "$tmp/out")" "0 $there"
is "... options of an engine are told to have no effect there, in one sentence" "$(cat "$tmp/err")" \
    "q35chat: --endpoint leaves --threads, --kv without effect: the server that answers has its own settings"
timeout $patience "$q" --endpoint "unix:$socket" --no-stdin -n 4 --save talk --verbose hello > "$tmp/out" 2> "$tmp/err"
has "a conversation with it is attached" "$? $(cat "$tmp/err")" "attached to the model that another q35chat has loaded"
timeout $patience "$q" --endpoint "unix:$socket" --model other --no-stdin -n 4 --save talk2 hello > "$tmp/out" 2> "$tmp/err"
has "... a model that it lacks is not" "$? $(cat "$tmp/err")" "the server has no model other; it has "
timeout $patience "$q" --endpoint "unix:$socket" --dialect q35chat --no-stdin -n 4 --save talk3 --verbose hello > "$tmp/out" 2> "$tmp/err"
lacks "... nor is it attached where --dialect says how to ask" "$(cat "$tmp/err")" "attached"

# Two hundred prompts, eight at a time: each its own answer, and the server does not grow.
rss() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' /proc/$server/status; }
many=${MANY:-200}
[ -z "$SAN" ] || many=${MANY:-40}
prompts() { seq 1 $many | xargs -n 1 -P 8 sh -c \
    '"$0" --model "$1" --no-stdin --no-think --temperature 0 "What is $3 + 1?" > "$2/$3" 2>&1 || echo "status $?" >> "$2/$3"' "$q" "$demo" "$1"; }
mkdir "$tmp/warm" "$tmp/again"
prompts "$tmp/warm"
before=$(rss)
prompts "$tmp/again"
is "$many prompts at once: all are answered" "$(ls "$tmp/again" | wc -l) $(grep -l 'status\|q35chat:' "$tmp"/again/* | wc -l)" "$many 0"
is "... each the same both times" "$(cd "$tmp/warm" && for f in *; do cmp -s "$f" "$tmp/again/$f" || echo "$f"; done)" ""
has "... and is its own" "$(cat "$tmp/again/7")" "8"
grown=$(($(rss) - before))
[ -n "$SAN" ] || if [ "$grown" -lt 8192 ]; then ok "... and the server has not grown"; else bad "... and the server has not grown" "by $grown kB"; fi

key=$XDG_CONFIG_HOME/q35chat/serve.key
is "the key's file is its user's alone" "$(stat -c %a "$key")" 600
is "over TCP the key is wanted, and this machine's name" \
    "$(timeout $patience python3 tests/remote/ask.py 127.0.0.1:$port keys "$(cat "$key")" 2>&1)" "401 200 401 401 401 401 403 200 403 200 403"
lacks "the key is in no message" "$(cat "$tmp/serve.log")" "$(cat "$key")"
Q35CHAT_API_KEY=$(cat "$key") timeout $patience "$q" --endpoint http://127.0.0.1:$port --no-stdin -n 4 hello > "$tmp/out" 2> "$tmp/err"
is "a chat comes over TCP, too" $? 0
"$q" serve --model "$demo" --listen nonsense > "$tmp/out" 2>&1
is "an address that is none is wrong usage, also beside a server" "$? $(grep -c "the address is 'nonsense'" "$tmp/out")" "2 1"
"$q" serve stop
wait $server
begin "$demo" --prompt-math int8
one --prompt-math exact
has "exact prompts are not read by a server whose prompts are rounded" "$(served) $(cat "$tmp/err")" \
    "0 q35chat: another q35chat has loaded this model with prompt_math=int8 instead of prompt_math=exact, so it is loaded here as well"
one
is "... those of nobody who says so are" "$found $(served)" "0 1"
"$q" serve stop
wait $server
"$q" serve --model "$demo" --listen 0.0.0.0:$port > "$tmp/out" 2>&1
is "an address that others reach is refused" $? 2
has "... with a sentence" "$(cat "$tmp/out")" "can be reached from other machines"
"$q" serve --model "$demo" --listen nonsense > "$tmp/out" 2>&1
has "so is one that is none" "$(cat "$tmp/out")" "the address is 'nonsense', expected 127.0.0.1:PORT"
lacks "... before it is said that somebody listens" "$(cat "$tmp/out")" "listening on"
python3 -c '
import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen()
print("there", flush=True); time.sleep(600)' $port > "$tmp/listens" &
server=$!
for i in $(seq $((10 * patience))); do [ -s "$tmp/listens" ] && break; sleep 0.1; done
"$q" serve --model "$demo" --listen 127.0.0.1:$port > "$tmp/out" 2>&1
is "a port in use is refused, and nothing else is said" "$? $(cat "$tmp/out")" "2 q35chat: cannot listen on 127.0.0.1:$port: Address already in use"
end
"$q" serve --model "$demo" --listen 127.0.0.1:99999 > "$tmp/out" 2>&1
has "so is a port above 65535" "$(cat "$tmp/out")" "the address is '127.0.0.1:99999', expected 127.0.0.1:PORT"
chmod 644 "$key"
"$q" serve --model "$demo" --listen 127.0.0.1:$port > "$tmp/out" 2>&1
has "a key that others can read is refused" "$(cat "$tmp/out")" "can be read by others"
exit $status
