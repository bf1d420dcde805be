#!/bin/sh
# ollama's dialect, as its clients speak it; with PYTHON=FILE, a Python that has the package ollama, that package too.
. tests/remote/serve.inc
[ -n "$demo" ] || { echo "skip needs the demo model"; exit $status; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
umask 077
key=aaaaaaaaaaaaaaaaaaaa
echo $key > "$tmp/key"
begin "$demo" --threads 2 --listen 127.0.0.1:$port --key-file "$tmp/key"
does() { timeout $patience python3 tests/remote/ollama_asks.py "$socket" "$1" 2>&1 | tail -1; }
is "an answer in one piece" "$(does whole)" "True stop 6 * 7 = 42."
is "a stream of lines, by default" "$(does stream)" "6 * 7 = 42. 1 True True True"
is "a limit" "$(does limit)" "length 2"
is "reasoning comes apart" "$(does thinking)" "True"
is "arguments of calls are objects, and come back so" "$(does call)" "{'expression': '12 * 12'} 12 * 12 = 144."
is "an answer obeys a schema" "$(does schema)" "n"
is "... or is any object" "$(does json)" "dict"
is "a picture is seen" "$(does picture)" "The square is red."
is "a refusal is in its form" "$(does unknown)" "unknown model llama3"
is "... and names the client's field" "$(does format)" 'format is neither "json" nor a schema'
is "... and the message" "$(does role)" "messages[1]"
is "its models" "$(does tags)" "demo"
is "what runs: its memory, context, and for how long" "$(does running)" "context_length size_vram modified_at 32768 True 0 30"
is "the first line comes while the prompt is read" "$(does first)" "['', False, 1, True, '', False, 1, True]"
is "what they can do" "$(does show)" "completion tools thinking vision"
is "a call comes in a stream" "$(does streamed_call)" "{'expression': '12 * 12'} True"
is "a question to /api/generate, and one with a picture" "$(does generate)" "6 * 7 = 42. The square is red."
is "... in lines" "$(does lines)" "6 * 7 = 42. stop"
is "... and a prompt as it is" "$(does raw)" "6 * 7 = 42."
is "without a question the model is there" "$(does nothing)" "load load"
is "no other model is shown" "$(does another)" "known unknown model llama3; model is not a text"
is "the root says who is there" "$(does root)" "200 q35chat is running"
is "embeddings are refused" "$(does embed)" "this server does not provide embeddings"
uses() { timeout $patience "$PYTHON" tests/remote/ollama_asks.py 127.0.0.1:$port package $key 2>&1 | tail -1; }
[ -z "${PYTHON-}" ] || is "the package ollama" "$(uses)" \
    "demo 6 * 7 = 42. 6 * 7 = 42. stop calculator expression The square is red. completion tools thinking vision"
"$q" serve stop
wait $server
server=
exit $status
