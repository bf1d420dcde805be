#!/bin/sh
# The program against servers of all dialects (tests/remote/server.py): answers, refusals, broken streams, the key.
. tests/pty/common.inc
command -v python3 > /dev/null || { echo "skip the test server needs python3"; exit 0; }
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy OPENAI_API_KEY Q35CHAT_API_KEY
python3 tests/remote/server.py "$tmp" 2> "$tmp/server.log" &
server=$!
trap 'kill $server 2> /dev/null; rm -rf "$tmp"' EXIT
for i in $(seq $((10 * patience))); do [ -s "$tmp/port" ] && break; sleep 0.1; done
: > "$tmp/requests"
at=http://127.0.0.1:$(cat "$tmp/port")

ask() {         # WAY, options: the answer in $out, what was said in $err, the status in $found
    way=$1
    shift
    timeout $patience "$q" --endpoint "$at/$way" --no-stdin "$@" hello > "$tmp/out" 2> "$tmp/err"
    found=$?
    out=$(cat "$tmp/out") err=$(cat "$tmp/err")
}
last() { tail -n 1 "$tmp/requests"; }

ask sglang -n 20
is "an answer of SGLang is read" "$found" 0
is "... its text" "$out" "42 is it."
has "... asked in its words" "$(last)" '"chat_template_kwargs": {"enable_thinking": true}'
has "... of the model that it has" "$(last)" '"model": "tiny"'
lacks "... without a key" "$(last)" "Bearer"
ask sglang --no-think --temperature 0
has "thinking can be switched off" "$(last)" '"enable_thinking": false'
for way in vllm llamacpp ollama odd; do
    ask $way
    is "an answer of $way ends well" "$found" 0
    has "... its calls are refused, and then it speaks" "$out" "42 is it."
    has "... results name their calls" "$(last)" '"tool_call_id": "call_'
done
ask odd
is "odd events are understood" "$(printf %s "$out" | head -c 5)" "a$(printf '\342\200\250')b"
ask slow/sglang
ask sglang/slow
is "a byte at a time" "$out" "42 is it."
ask ollama --no-think
has "ollama is asked in its words" "$(last)" '"reasoning_effort": "none"'
ask sglang --jsonl
has "events have the reasoning" "$out" '"Easy."'

ask error
is "an error in the middle is a failure" "$found" 1
has "... with the server's words" "$err" "the server says: CUDA out of memory"
has "... and what came before it" "$out" "Once upon"
ask broken
is "a stream that breaks off is a failure" "$found" 1
has "... with a sentence" "$err" "the stream broke off before the answer was complete"
ask sglang/once
is "a connection that breaks before the answer is made again" "$out" "42 is it."
ask sglang/picky --min-p 0.1 --verbose
is "what a server refuses is left out" "$out" "42 is it."
has "... and told" "$err" 'does not take "min_p"'
ask sglang/full
has "a full context is named" "$err" "maximum context length is 4096"
ask sglang/busy
has "so is a busy server" "$err" "overloaded (status 429): the server says: too many requests"
ask sglang/html
has "a page of a proxy is no answer" "$err" "refused (status 502)"
ask sglang/big
is "an endless event ends" "$found" 1
has "... with a sentence" "$err" "an event of more than 16 MiB"

ask sglang/key
is "without its key a server is not used" "$found" 3
has "... and it says where the key goes" "$err" "wants a key (status 401), which Q35CHAT_API_KEY holds"
Q35CHAT_API_KEY=wrong ask sglang/key
has "a wrong key is not accepted" "$err" "did not accept the key"
lacks "... nor shown" "$err$out" "wrong"
Q35CHAT_API_KEY=secret ask sglang/key
is "with the key it answers" "$out" "42 is it."
Q35CHAT_API_KEY=secret "$q" --endpoint "$at/sglang/key" --print-config > "$tmp/out" 2>&1
lacks "the key is in no configuration" "$(cat "$tmp/out")" "secret"
ask sglang/two
has "of two models one must be named" "$err" "has 2 models; --model names one of them: tiny, other"
ask sglang/two --model other
has "... and then is asked" "$(last)" '"model": "other"'
ask nothing/v2
has "what is no such server says so" "$err" "refused (status 404)"
ask sglang --dialect nonsense
is "a dialect that is none is refused" "$found" 2
timeout $patience "$q" --endpoint http://127.0.0.1:1 --no-stdin hello > "$tmp/out" 2> "$tmp/err"
is "nobody there: status" $? 3
has "... and a sentence" "$(cat "$tmp/err")" "http://127.0.0.1:1/v1: "
timeout $patience "$q" --endpoint 127.0.0.1 --no-stdin hello > "$tmp/out" 2> "$tmp/err"
has "an address needs its scheme" "$(cat "$tmp/err")" "expected an address that begins with http:// or https://"

# An interrupt closes the stream at once, although nothing comes.
"$q" --endpoint "$at/sglang/stall" --no-stdin hello > "$tmp/out" 2> "$tmp/err" &
job=$!
for i in $(seq $((10 * patience))); do grep -q '"path": "/sglang/stall/v1/chat' "$tmp/requests" && break; sleep 0.1; done
kill -INT $job
wait $job
is "an interrupt ends a stream that stalls" $? 130

printf 'first\nsecond\n' | timeout $patience "$q" --endpoint "$at/sglang" --batch > "$tmp/out" 2> "$tmp/err"
is "a batch is answered, too" "$(grep -c '42 is it' "$tmp/out")" 2
exit $status
