#!/bin/sh
# Client packages get typed answers from `q35chat serve` with the demo model by their usual ways: pydantic-ai, instructor, LangChain, llm, the agents
# of OpenAI, outlines, smolagents.  PYTHON=FILE is a python that has them, as one in a virtual environment; what it lacks is skipped.
. tests/remote/serve.inc
[ -n "$PYTHON" ] || { echo "skip PYTHON names no python with these packages"; exit 0; }
[ -n "$demo" ] || { echo "skip these clients need the demo model"; exit 0; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
begin "$demo" --listen 127.0.0.1:$port
timeout $((20 * patience)) "$PYTHON" tests/remote/schemas.py http://127.0.0.1:$port/v1 "$(cat "$XDG_CONFIG_HOME/q35chat/serve.key")" \
    > "$tmp/out" 2> "$tmp/err"
cat "$tmp/out"
is "every way ends with a valid object" "$? $(grep -c '^not ok' "$tmp/out")" "0 0"
[ $status = 0 ] || tail -n 20 "$tmp/err"
exit $status
