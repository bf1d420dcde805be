#!/bin/sh
# A server that ends in the middle of answers: a stream ends as its dialect ends one that failed, and a request without a reply gets one.
. tests/remote/serve.inc
[ -n "$demo" ] || { echo "skip these answers need the demo model"; exit 0; }
ends() {        # COMMAND...
    timeout $patience python3 tests/remote/stop.py "$socket" "$@" > "$tmp/out" 2>&1
    for found in "stream /v1/chat/completions 200 whole error" "stream /v1/completions 200 whole error" \
        "stream /v1/messages 200 whole event: error error" "stream /v1/responses 200 whole event: response.failed error" \
        "stream /api/chat 200 whole error" "whole /v1/chat/completions 503 error" "whole /v1/completions 503 error" "whole /v1/messages 503 error" \
        "whole /v1/responses 503 error" "whole /api/chat 503 error" "half /v1/messages 503 error"; do
        has "${1##*/}: ${found% [0-9]*}" "$(cat "$tmp/out")" "$found"
    done
    wait $server
    is "${1##*/}: the server ends well" $? 0
    server=
}
begin "$demo" --conversations 5
ends kill $server
begin "$demo" --conversations 5
ends "$q" serve stop
exit $status
