#!/bin/sh
# `q35chat model get` over HTTP/2 and HTTP/1.1 with TLS: nghttpx stands in front of both hosts of the test hub, with certificates of an
# authority made here.
. tests/hub/common.inc
for tool in nghttpx openssl; do
    command -v $tool > /dev/null || { echo "skip HTTP/2 and TLS need $tool (Debian: nghttp2-proxy, openssl)"; exit 0; }
done
fronts=
trap 'exec 9>&-; for p in $fronts; do kill $p; done 2> /dev/null; rm -rf "$tmp"' EXIT
elsewhere_port=$(cat "$tmp/port.elsewhere")
get() { "$q" model get --range 1 --tries 3 --stall 60 "$@" > "$tmp/out" 2> "$tmp/err"; }
forget() { rm -rf "$tmp/hf"; }

# An authority, and certificates by it: of both hosts, of one that is expired, and of one with another name.
cd "$tmp" || exit 1
key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
openssl req -x509 $key -keyout ca.key -out ca.pem -days 2 -subj "/CN=tests" 2> ssl.log || { bad "an authority" "$(cat ssl.log)"; exit 1; }
certificate() { # NAME ADDRESS DATES
    openssl req $key -keyout "$1.key" -out "$1.csr" -subj "/CN=$1" 2>> ssl.log &&
        printf 'subjectAltName=%s\n' "$2" > "$1.ext" &&
        openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial $3 -extfile "$1.ext" -out "$1.pem" 2>> ssl.log
}
certificate hub IP:127.0.0.1 "-days 2" && certificate elsewhere IP:127.0.0.2 "-days 2" && certificate other DNS:other.example "-days 2" &&
    { certificate old IP:127.0.0.1 "-days -1" || certificate old IP:127.0.0.1 "-not_before 20200101000000Z -not_after 20200102000000Z"; } ||
    { bad "certificates" "$(cat ssl.log)"; exit 1; }
cd "$root" || exit 1

free_port() { python3 -c 'import socket, sys; s = socket.socket(); s.bind((sys.argv[1], 0)); print(s.getsockname()[1])' "$1"; }
# NAME HOST BACKEND-PORT PROTOCOLS: sets $at; each request becomes a line in $tmp/NAME.access: protocol, status.
front() {
    at=$(free_port "$2")
    : > "$tmp/$1.access"
    nghttpx --conf=/dev/null --workers=1 --npn-list="$4" --accesslog-file="$tmp/$1.access" --accesslog-format='$alpn $status' \
        --errorlog-file=/dev/null \
        -f"$2,$at" -b"$2,$3" "$tmp/$1.key" "$tmp/$1.pem" 2> "$tmp/$1.err" 9>&- &
    fronts="$fronts $!"
    until python3 -c 'import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])))' "$2" "$at" 2> /dev/null; do
        kill -0 $! 2> /dev/null || { bad "nghttpx" "$(cat "$tmp/$1.err")"; exit 1; }
        sleep 0.05
    done
}
protocols() { cut -d' ' -f1 "$tmp/hub.access" "$tmp/elsewhere.access" | sort -u | tr '\n' ' '; }
right() { diff -r "$tmp"/hf/hub/models--demo--bytes/snapshots/* "$many" > "$tmp/diff" 2>&1 && echo right; }

export SSL_CERT_FILE="$tmp/ca.pem"
for protocol in h2 http/1.1; do
    forget
    front hub 127.0.0.1 "$port" $protocol
    export HF_ENDPOINT=https://127.0.0.1:$at
    front elsewhere 127.0.0.2 "$elsewhere_port" $protocol
    elsewhere=https://127.0.0.2:$at
    hub set "{\"elsewhere\": {\"at\": \"$elsewhere\"}, \"token\": {\"is\": \"secret\"}, \"page\": {\"size\": 1}}"
    HF_TOKEN=secret get --connections 3 demo/bytes
    is "over $protocol: it ends well" "$? $(cat "$tmp/err")" "0 "
    is "... the files are right" "$(right)" right
    is "... each request went over it" "$(protocols)" "$protocol "
    is "... the token reached the hub, and not the second host" \
        "$([ "$(hub get tokens_at_hub)" -gt 0 ] && [ "$(hub get bytes)" -gt 3 ] && hub get tokens_elsewhere)" 0
    forget
    hub set "{\"elsewhere\": {\"at\": \"$elsewhere\"}, \"truncate\": {\"after\": 300000, \"every\": 3, \"times\": 6}}"
    get --connections 3 --tries 8 demo/bytes
    is "... with connections that end early" "$? $(cat "$tmp/err") $(right)" "0  right"
done

fails() { # NAME SENTENCE: one line, at once, and nothing was got
    forget
    get demo/bytes
    is "$1: the status says so" "$? $(find "$tmp/hf" -path '*/snapshots/*' -name '*.safetensors' 2> /dev/null | wc -l)" "1 0"
    is "$1: one sentence" "$(grep -c . "$tmp/err") $(grep -c "^q35chat: .*$2" "$tmp/err")" "1 1"
    lacks_retries "$1"
}
lacks_retries() { if grep -q 'tried' "$tmp/err"; then bad "$1: it is not tried again" "$(cat "$tmp/err")"; else ok "$1: it is not tried again"; fi; }
hub set "{\"elsewhere\": {\"at\": \"http://127.0.0.2:$elsewhere_port\"}}"
fails "from https to http" "is redirected from https to .*, which is not safe"
SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt fails "an authority that nobody knows" "the certificate of 127.0.0.1 was not accepted: "
SSL_CERT_FILE=$tmp/none fails "a file of authorities that is not there" "the certificate of 127.0.0.1 cannot be checked: .*SSL_CERT_FILE=FILE names"
for wrong in other old; do
    front $wrong 127.0.0.1 "$port" h2
    HF_ENDPOINT=https://127.0.0.1:$at
    fails "the hub with the certificate $wrong" "the certificate of 127.0.0.1 was not accepted: "
done
cp "$tmp/other.key" "$tmp/elsewhere.key"
cp "$tmp/other.pem" "$tmp/elsewhere.pem"
front hub 127.0.0.1 "$port" h2
HF_ENDPOINT=https://127.0.0.1:$at
front elsewhere 127.0.0.2 "$elsewhere_port" h2
hub set "{\"elsewhere\": {\"at\": \"https://127.0.0.2:$at\"}}"
fails "the second host with another's certificate" "the certificate of 127.0.0.2 was not accepted: "
is "... and it was asked for nothing" "$(hub get bytes)" 0
exit $status
