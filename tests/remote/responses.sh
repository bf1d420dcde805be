#!/bin/sh
# Requests to /v1/responses of `q35chat serve`.  PYTHON=FILE is a python that has the openai package, whose types then read the replies, too.
. tests/remote/serve.inc
python=${PYTHON:-python3}
[ -n "$demo" ] || { echo "skip these requests need the demo model"; exit 0; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
begin "$demo" --listen 127.0.0.1:$port
has "texts, calls, reasoning, limits and refusals are as Codex and the openai package read them" \
    "$(timeout $((4 * patience)) "$python" tests/remote/responses.py http://127.0.0.1:$port "$(cat "$XDG_CONFIG_HOME/q35chat/serve.key")" 2>&1)" \
        "all is well"
exit $status
