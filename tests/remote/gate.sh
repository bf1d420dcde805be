#!/bin/sh
# Who may ask a server, how much of it, and what the others see of a client that is hostile, clumsy or gone.
. tests/remote/serve.inc
[ -n "$demo" ] || { echo "skip needs the demo model"; exit $status; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export XDG_CONFIG_HOME=$tmp/config
begin "$demo" --listen 127.0.0.1:$port --ctx 32768 --no-vision       # bodies have no room for pictures
key=$(cat "$tmp/config/q35chat/serve.key")
does() { timeout $((2 * patience)) python3 tests/remote/gate.py "$socket" $port "$key" $server "$@" 2> "$tmp/err" || tail -1 "$tmp/err"; }
if command -v curl > /dev/null; then
    sed -n '/^ASK=/,/^```/{/^```/!p}' docs/serve.md | sed "s|~/.config|$tmp/config|; s|127.0.0.1:8000|127.0.0.1:$port|" > "$tmp/first.sh"
    is "the first requests of docs/serve.md are answered, over both" "$(sh "$tmp/first.sh" | grep -o '"finish_reason": "stop"' | wc -l)" 2
fi
is "without the key no body is read" "$(does bodies)" "refused at the head"
is "a request that is refused at its head gets the reply while it sends its body" "$(does early)" "always answered"
is "256 slow connections without the key lock nobody out" "$(does slow)" "others are answered"
is "connections with the key have places of their own" "$(does keyed)" "in their places"
is "all bodies together have a limit" "$(does memory)" "bounded"
is "a client that leaves in the middle of a request keeps no place" "$(does left)" "gone"
is "a client that shuts its sending side is answered" "$(does halfclosed)" "answered"
is "what no context can hold is refused, and delays nobody" "$(does limits)" "refused"
is "a large body is read beside, and answered as a small one" "$(does large)" "the same"
is "a program that finds no place loads no second model" "$(does full "$q" --model "$demo" --no-stdin hello)" "full"
is "forms of keys, paths and heads are understood" "$(does forms)" "understood"
"$q" serve stop
wait $server
is "the server ends well after all that" $? 0
server=

begin "$demo" --listen 127.0.0.1:$port --alias claude-haiku --alias gpt-4o --origin http://localhost:3000 --origin https://app.example
is "names and web pages that are listed are let in" "$(timeout $patience python3 tests/remote/ask.py 127.0.0.1:$port doors "$key" 2>&1)" \
    "open to those who are listed"
"$q" serve clients > "$tmp/out"
is "the lines for other programs have the address, the key and the model" \
    "$(eval "$("$q" serve clients openai)"; eval "$("$q" serve clients anthropic)"; eval "$("$q" serve clients claude | grep export)"
       echo "$OPENAI_BASE_URL $OPENAI_API_KEY $ANTHROPIC_BASE_URL $ANTHROPIC_AUTH_TOKEN $ANTHROPIC_MODEL $CLAUDE_CODE_MAX_CONTEXT_TOKENS")" \
    "http://127.0.0.1:$port/v1 $key http://127.0.0.1:$port $key demo 32768"
printf '# who\nlaptop %s\nci bbbbbbbbbbbbbbbbbbbb\n' $key > "$tmp/config/q35chat/serve.key"
is "... the key also of a file with names" "$(eval "$("$q" serve clients openai)"; echo $OPENAI_API_KEY)" "$key"
has "... and room for an answer that the context has" "$("$q" serve clients opencode)" '"context": 32768, "output": 8192}'
is "... all of them" "$(grep -c '^# ' "$tmp/out")$(grep -c "@[A-Z]*@\|$key" "$tmp/out")" 80
"$q" serve clients emacs > "$tmp/out" 2>&1
is "a program that is not among them is refused" "$? $(cat "$tmp/out")" \
    "2 q35chat: no settings for 'emacs'; q35chat serve clients lists them all"
"$q" serve stop
wait $server
begin "$demo" --any-model --moved-room 1
body='{"model": "gpt-9", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}'
"$q" serve clients > "$tmp/out" 2>&1
has "without --listen there are none" "$? $(cat "$tmp/out")" "1 q35chat: what has the model listens on its unix socket alone"
has "with --any-model every name is taken" "$(asks post /v1/chat/completions "$body")" '200 {"id"'
"$q" serve stop
wait $server
server=

# A server that accepts one connection and ends.
mkdir -p "$tmp/ends/q35chat"
is "a server that ended between two looks is no busy one" "$(timeout $patience python3 -c '
import os, socket, subprocess, sys
path = sys.argv[2] + "/q35chat/serve.sock"
s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen(1)
p = subprocess.Popen([sys.argv[1], "serve", "status"], env=dict(os.environ, XDG_RUNTIME_DIR=sys.argv[2]), stderr=subprocess.PIPE, text=True)
c, _ = s.accept(); s.close(); os.unlink(path); c.close()
print(p.communicate()[1].strip(), p.returncode)' "$q" "$tmp/ends")" "q35chat: no server runs on $tmp/ends/q35chat/serve.sock 1"

# Sockets of another user, and folders that are not the user's own.
if [ "$(id -u)" = 0 ]; then
    foreign=$tmp/foreign/q35chat
    mkdir -p "$foreign"
    chmod 755 "$tmp" "$tmp/foreign"
    python3 -c '
import os, socket, sys
s = socket.socket(socket.AF_UNIX); os.chown(sys.argv[1], 12345, 12345); os.setgid(12345); os.setuid(12345)
s.bind(sys.argv[1] + "/serve.sock"); s.listen(9)
os.chmod(sys.argv[1] + "/serve.sock", 0o666)
while True: print(s.accept()[0].recv(9999), flush=True)' "$foreign" > "$tmp/received" &
    server=$!
    for i in $(seq $((10 * patience))); do [ -S "$foreign/serve.sock" ] && break; sleep 0.1; done
    asks_foreign() { XDG_RUNTIME_DIR=$tmp/foreign timeout $patience "$q" "$@" > "$tmp/out" 2> "$tmp/err"; found=$?; }
    asks_foreign serve status
    is "a folder of another user is not asked in" "$found $(cat "$tmp/err")" "1 q35chat: $foreign belongs to another user: a socket there is not safe"
    chown 0:0 "$foreign"
    asks_foreign serve status
    has "nor is a program of another user" "$found $(cat "$tmp/err")" \
        "1 q35chat: the program that listens on $foreign/serve.sock is another user's (uid 12345)"
    asks_foreign --endpoint "unix:$foreign/serve.sock" --no-stdin secret
    has "... also as an endpoint" "$found $(cat "$tmp/err")" "is another user's (uid 12345)"
    asks_foreign --model "$demo" --no-stdin --temperature 0 --no-think hello
    is "... and a pipe loads the model itself, with one sentence" "$found $(grep -c 'is another user' "$tmp/err") $(wc -l < "$tmp/err")" "0 1 1"
    is "... and nothing was sent" "$(sort -u "$tmp/received")" "b''"
    end
else
    echo "skip sockets of another user need root"
fi

# A key that can be guessed is none.
printf 'short\n' > "$tmp/key"
chmod 600 "$tmp/key"
"$q" serve --model "$demo" --listen 127.0.0.1:$port --key-file "$tmp/key" > "$tmp/out" 2>&1
is "a short key is refused" $? 2
has "... with a sentence" "$(cat "$tmp/out")" "has 5 characters, expected 16"
exit $status
