#!/bin/sh
# The anthropic and openai Python packages against `q35chat serve` with a scripted engine: their helpers take every stream, each event has what their
# types require, and the tables of fields have each name that they can send.  PYTHON=FILE is a python that has both.  Needs
# build/tests/remote/scripted.
. tests/remote/serve.inc
python=${PYTHON:-python3}
"$python" -c 'import anthropic, openai' 2> /dev/null || { echo "skip the Python packages anthropic and openai are not installed here"; exit 0; }
[ -x "$BUILD/tests/remote/scripted" ] || { echo "skip make $BUILD/tests/remote/scripted"; exit 0; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
q=$BUILD/tests/remote/scripted
"$python" tests/remote/sdk.py script > "$tmp/script"
export SCRIPT="$tmp/script"
begin assets/demo --listen 127.0.0.1:$port
key=$(cat "$XDG_CONFIG_HOME/q35chat/serve.key")
has "the tables have every name, and the packages take every stream" \
    "$(timeout $((4 * patience)) "$python" tests/remote/sdk.py http://127.0.0.1:$port "$key" 2>&1)" "all is well"
exit $status
