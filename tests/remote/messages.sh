#!/bin/sh
# The anthropic Python package as a client of `q35chat serve`.  PYTHON=FILE is a python that has it, as one in a virtual environment.
. tests/remote/serve.inc
python=${PYTHON:-python3}
[ -n "$demo" ] || { echo "skip this client needs the demo model"; exit 0; }
"$python" -c 'import anthropic' 2> /dev/null || { echo "skip the Python package anthropic is not installed here"; exit 0; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
begin "$demo" --listen 127.0.0.1:$port
has "answers, streams, thoughts, tools and refusals are understood" \
    "$(timeout $((4 * patience)) "$python" tests/remote/messages.py http://127.0.0.1:$port "$(cat "$XDG_CONFIG_HOME/q35chat/serve.key")" 2>&1)" \
        "all is well"
exit $status
