#!/bin/sh
# Eight clients at once, two with conversations that grow and six with side requests: no conversation is computed again, each turn finds 99 % of the
# one before.  At full size, by hand: TURNS=5 TOKENS=20000 PATIENCE=3600 sh tests/remote/eight.sh
. tests/remote/serve.inc
[ -n "$demo" ] || { echo "skip these conversations need the demo model"; exit 0; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
begin "$demo" --listen 127.0.0.1:$port --ctx 32768
timeout $patience python3 tests/bench/eight.py http://127.0.0.1:$port "$(cat "$XDG_CONFIG_HOME/q35chat/serve.key")" ${TURNS:-3} ${TOKENS:-600} \
    > "$tmp/out" 2>&1
is "no conversation is computed again beside side requests" "$? $(tail -n 1 "$tmp/out" | cut -c 1-3)" "0 ok "
[ $status = 0 ] || cat "$tmp/out" >&2
exit $status
