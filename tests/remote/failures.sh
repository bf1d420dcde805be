#!/bin/sh
# Connections that fail, as an endpoint and as the hub of `model get`: one sentence, the same for both, that names the host and what to do.
. tests/pty/common.inc
command -v python3 > /dev/null || { echo "skip the servers of these tests need python3"; exit 0; }
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy no_proxy NO_PROXY SSL_CERT_FILE
cat > "$tmp/servers.py" <<'E2'
import os, socket, sys, threading
ways = {"mute": b"", "ssh": b"SSH-2.0-OpenSSH_9\r\n", "refuses": b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
        "cut": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"}
def serve(s, says):
    while True:
        c = s.accept()[0]
        c.recv(10000)
        c.sendall(says)
        c.close()
def opened(way):
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(9)
    threading.Thread(target=serve, args=(s, ways[way])).start()
    return "%s=%d" % (way, s.getsockname()[1])
with open(sys.argv[1] + ".new", "w") as f:
    f.write("\n".join(opened(w) for w in ways) + "\n")
os.rename(sys.argv[1] + ".new", sys.argv[1])
E2
python3 "$tmp/servers.py" "$tmp/ports" 2> /dev/null &
servers=$!
trap 'kill $servers 2> /dev/null; rm -rf "$tmp"' EXIT
for i in $(seq $((10 * patience))); do [ -s "$tmp/ports" ] && break; sleep 0.1; done
. "$tmp/ports"
python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$tmp/left.sock"

# In a sentence (*) stands for the library's own words, which differ from one version to the next.
like() {        # NAME FOUND PATTERN
    case $2 in $3) ok "$1" ;; *) bad "$1" "found '$2', expected '$3'" ;; esac
}
# NAME ADDRESS SENTENCE [VARIABLE=VALUE]
fails() {
    env ${4:-NONE=} timeout $patience "$q" --endpoint "$2" --no-stdin hello > "$tmp/out" 2>&1
    is "$1: an endpoint's status" $? 3
    like "$1: ... and its sentence" "$(cat "$tmp/out")" "q35chat: $3"
    case $2 in unix:*) return ;; esac
    env ${4:-NONE=} HF_ENDPOINT="$2" HF_HOME="$tmp/hf" timeout $patience "$q" model get --tries 1 demo/bytes > "$tmp/out" 2>&1
    is "$1: the hub's status" $? 1
    like "$1: ... and its sentence" "$(tail -n 1 "$tmp/out")" "*: $3"
}
at=127.0.0.1
fails "refused" "http://$at:1" "no server listens at $at port 1: start it there, or correct the address"
fails "a name" http://llm.invalid "the name llm.invalid is not known: correct the address, or see whether this machine has a network"
fails "no word" "http://$at:$mute" \
    "$at port $mute closed the connection without an answer (*): see whether the server still runs; with TLS its address begins with https://"
fails "not HTTP" "http://$at:$ssh" "what listens at $at port $ssh does not speak HTTP: correct the address and its port"
fails "cut off" "http://$at:$cut" \
    "$at broke off in the middle of its answer (*): see whether the server and the network still work"
fails "no socket" "unix:$tmp/none.sock" "there is no socket $tmp/none.sock: start the server there, or correct the path"
fails "a socket that was left" "unix:$tmp/left.sock" "no server listens on the socket $tmp/left.sock (Connection refused): start it there"
fails "no proxy there" https://example.invalid \
    "the proxy of https_proxy cannot be reached (Connection refused): correct https_proxy, or set no_proxy=example.invalid" \
    https_proxy=http://$at:1
fails "a proxy's name" https://example.invalid "the name of the proxy in all_proxy is not known: correct all_proxy, or set no_proxy=example.invalid" \
    all_proxy=http://proxy.invalid
fails "a proxy that refuses" https://example.invalid \
    "the proxy of https_proxy refused the way to example.invalid (status 403): correct https_proxy, or set no_proxy=example.invalid" \
        https_proxy=http://$at:$refuses

# What the TLS library says differs from one to the next.
said() { env ${2:-NONE=} timeout $patience "$q" --endpoint "$1" --no-stdin hello 2>&1; }
has "no TLS there" "$(said "https://$at:$ssh")" "no TLS connection to $at port $ssh ("
has "... and what to do" "$(said "https://$at:$ssh")" "): the address of a server without TLS begins with http://"
has "no address" "$(said "http://[bad")" "expected one such as https://example.org:8000/v1"
mkfifo "$tmp/fifo"
has "authorities in a FIFO" "$(said "https://$at:$mute" SSL_CERT_FILE="$tmp/fifo")" \
    "fifo, which names the authorities to trust (SSL_CERT_FILE=FILE names another), is neither a regular file nor a folder"
has "no authorities" "$(said "https://$at:$mute" SSL_CERT_FILE="$tmp/none")" "the certificate of $at cannot be checked: "
exit $status
