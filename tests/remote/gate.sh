#!/bin/sh
# Who may ask a server, how much of it, and what the others see of a client that is hostile, clumsy or gone.
. tests/remote/serve.inc
[ -n "$demo" ] || { echo "skip needs the demo model"; exit $status; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export XDG_CONFIG_HOME=$tmp/config
begin "$demo" --listen 127.0.0.1:$port --ctx 32768
key=$(cat "$tmp/config/q35chat/serve.key")
does() { timeout $((2 * patience)) python3 tests/remote/gate.py "$socket" $port "$key" $server "$1" 2> "$tmp/err" || tail -1 "$tmp/err"; }
is "without the key no body is read" "$(does bodies)" "refused at the head"
is "256 slow connections without the key lock nobody out" "$(does slow)" "others are answered"
is "connections with the key have places of their own" "$(does keyed)" "in their places"
is "all bodies together have a limit" "$(does memory)" "bounded"
is "a client that leaves in the middle of a request keeps no place" "$(does left)" "gone"
is "a client that shuts its sending side is answered" "$(does halfclosed)" "answered"
is "what no context can hold is refused, and delays nobody" "$(does limits)" "refused"
is "a large body is read beside, and answered as a small one" "$(does large)" "the same"
is "forms of keys, paths and heads are understood" "$(does forms)" "understood"
"$q" serve stop
wait $server
is "the server ends well after all that" $? 0
server=

# A key that can be guessed is none.
printf 'short\n' > "$tmp/key"
chmod 600 "$tmp/key"
"$q" serve --model "$demo" --listen 127.0.0.1:$port --key-file "$tmp/key" > "$tmp/out" 2>&1
is "a short key is refused" $? 2
has "... with a sentence" "$(cat "$tmp/out")" "has 5 characters, expected at least 16"
exit $status
