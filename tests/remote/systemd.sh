#!/bin/sh
# `q35chat serve` as a service of systemd: sockets that were opened for it, and what it tells; the units.
. tests/remote/serve.inc
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export PORT=$port
timeout $((4 * patience)) python3 tests/remote/systemd.py "$tmp" "$q" serve --model "$small" > "$tmp/out" 2> "$tmp/err"
is "a service answers on the sockets that it was given" "$(paste -sd , "$tmp/out")" \
    "client 200,without a key 401,told READY=1, STOPPING=1,exit 0,socket there"
has "... and says so" "$(cat "$tmp/err")" "listening on 2 sockets that were given"
[ ! -e "$socket" ] && ok "... and opens none of its own" || bad "... and opens none of its own" "$socket"
LISTEN_PID=1 LISTEN_FDS=1 timeout $patience "$q" serve --model "$tmp/none" > "$tmp/out" 2>&1 3< /dev/null
is "what was meant for another process is left alone" "$? $(cat "$tmp/out")" \
    "3 q35chat: no directory $tmp/none; \`q35chat model list\` lists the models of this machine"
sh -c 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" serve --model "$1" 3< /dev/null' "$q" "$small" > "$tmp/out" 2>&1
is "a descriptor that is no socket is refused" "$?" 1
has "... with a sentence" "$(cat "$tmp/out")" "descriptor 3 of LISTEN_FDS is not a socket that listens"
# Somebody else listens where the server would.
mkdir -p -m 700 "${socket%/*}"
python3 -c '
import socket, sys, time
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print("there", flush=True); time.sleep(600)' "$socket" > "$tmp/listens" &
server=$!
for i in $(seq $((10 * patience))); do [ -s "$tmp/listens" ] && break; sleep 0.1; done
timeout $patience "$q" serve --model "$small" > "$tmp/out" 2>&1
is "a socket on which somebody listens is not taken away" "$? $([ -S "$socket" ] && echo there)" "1 there"
has "... with a sentence" "$(cat "$tmp/out")" "another program listens on $socket"
end
# One that takes no connection, with as many waiting as it lets.
rm -f "$socket" "$tmp/listens"
python3 -c '
import socket, sys, time
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(0); c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1])
print("there", flush=True); time.sleep(600)' "$socket" > "$tmp/listens" &
server=$!
for i in $(seq $((10 * patience))); do [ -s "$tmp/listens" ] && break; sleep 0.1; done
timeout $patience "$q" serve status > "$tmp/out" 2>&1
is "a server that takes no connection keeps nobody waiting for ever" "$? $(cat "$tmp/out")" \
    "1 q35chat: the q35chat at $socket does not answer, perhaps it is suspended: it has accepted no connection for 5 s"
timeout $patience "$q" serve --model "$small" > "$tmp/out" 2>&1
is "... and its socket is not taken away" "$? $([ -S "$socket" ] && echo there)" "1 there"
has "... with a sentence" "$(cat "$tmp/out")" "another program listens on $socket"
end

make -s copies BUILD="$BUILD" DESTDIR="$tmp/root" PREFIX=/opt/q35 > "$tmp/out" 2>&1 || bad "the files are installed" "$(tail -3 "$tmp/out")"
units=$tmp/root/opt/q35/share/systemd/user
has "the unit starts the program that was installed" "$(cat "$units/q35chat.service")" "ExecStart=/opt/q35/bin/q35chat serve"
socket_of=$(sed -n 's/^ListenStream=//p' "$units/q35chat.socket")
is "its socket is the one where programs look" "$(echo "$socket_of" | sed "s|%t|$XDG_RUNTIME_DIR|")" "$socket"
if command -v systemd-analyze > /dev/null; then
    sed "s|/opt/q35/bin/q35chat|$q|" "$units/q35chat.service" > "$tmp/q35chat.service"
    cp "$units/q35chat.socket" "$tmp/"
    is "systemd understands both" "$(SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --user --man=no "$tmp/q35chat.service" \
        "$tmp/q35chat.socket" 2>&1 | grep q35chat)" ""
fi
exit $status
