#!/bin/sh
# The program against servers of all dialects (tests/remote/server.py): answers, refusals, broken streams, the key.
. tests/pty/common.inc
command -v openssl > /dev/null && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$tmp/tls.key" -out "$tmp/tls.pem" \
    -days 2 \
    -subj /CN=tests -addext subjectAltName=IP:127.0.0.1 2> /dev/null
. tests/remote/replay.inc
at=$replay

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
    has "... results name their calls" "$(last)" "\"tool_call_id\": \"$(last | sed 's/.*"tool_calls": \[{"id": "\([^"]*\)".*/\1/')"
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

ask sglang/plain --schema '{"type": "object", "properties": {"n": {"type": "integer"}}}' --json
has "a schema is passed on" "$(last)" \
    '"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": {"type": "object"'
has "... and stands in the prompt" "$(last)" 'Write JSON that this JSON schema accepts'
is "... an answer that does not obey has a status of its own" "$found" 1
has "... with a sentence" "$err" "the answer is not what the schema wants: not valid JSON"
has "... and is marked" "$out" '"invalid":"not valid JSON'
ask sglang/plain --schema '{"not": {"type": "string"}}' --verbose
has "what we could not enforce is passed on as well" "$(last)" '"schema": {"not": {"type": "string"}}'
ask sglang/plain --pattern '[0-9]+ is it.' --verbose
is "a pattern is, too, and an answer that has it is one" "$found $out" "0 42 is it."
has "... in the words of SGLang" "$(last)" '"regex": "[0-9]+ is it."'
ask ollama/plain --pattern '[0-9]+ is it.' --verbose
has "a server without patterns is told of" "$err" "the server cannot enforce a pattern"
is "... its answer counts if it has the form" "$found $out" "0 42 is it."
ask llamacpp/plain --choices 'yes,no'
has "choices are a grammar for llama.cpp" "$(last)" '"grammar": "root ::= \"yes\" | \"no\""'
has "... and are checked" "$found $err" "1 q35chat: the answer is not one of the choices"

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
ask sglang/flood -n 10
is "an answer without an end is stopped" "$found $(wc -c < "$tmp/out" | awk '{print ($1 > 60000 && $1 < 100000)}')" "1 1"
has "... with a sentence" "$err" "the server does not stop: its answer has more than 68096 bytes"

ask sglang/key
is "without its key a server is not used" "$found" 3
has "... and it says where the key goes" "$err" "wants a key, which Q35CHAT_API_KEY holds (status 401)"
Q35CHAT_API_KEY=wrong ask sglang/key
has "a wrong key is not accepted" "$err" "did not accept the key from Q35CHAT_API_KEY"
lacks "... nor shown" "$err$out" "wrong"
Q35CHAT_API_KEY=secret ask sglang/key
is "with the key it answers" "$out" "42 is it."
Q35CHAT_API_KEY=secret "$q" --endpoint "$at/sglang/key" --print-config > "$tmp/out" 2>&1
lacks "the key is in no configuration" "$(cat "$tmp/out")" "secret"
ask sglang/two
has "of two models one must be named" "$err" "has 2 models; --model names one of them: tiny, other"
ask sglang/two --model other
has "... and then is asked" "$(last)" '"model": "other"'
ask sglang/two --model third
has "... one that is not there is told with those that are" "$err" "the server has no model third; it has tiny, other"
ask sglang/empty
has "where none is listed, it must be named" "$found $err" "the server lists no model; --model names the one that it has"
ask sglang/empty --model tiny --verbose
is "... and then is asked for" "$out" "42 is it."
has "... with a word" "$err" "the server does not list the model tiny; it is requested anyway"
ask sglang/unlisted
has "so must it where there is no list" "$found $err" \
    "refused (status 404): the server says: Not Found; since the server has no list of models, --model must name"
ask sglang/unlisted --model tiny --dialect sglang
is "... and then is asked for" "$out" "42 is it."
has "... in the words of the dialect" "$(last)" '"chat_template_kwargs": {"enable_thinking": true}'
ask transformers --model tiny --dialect transformers --no-think
is "an answer of transformers is read" "$found $(head -c 12 "$tmp/out")" "0 One moment."
has "... which is asked in its words" "$(last)" '"chat_template_kwargs": {"enable_thinking": false}'
lacks "... and in no others" "$(last)" '"top_k"'
ask llamacpp-python --no-think --temperature 0 --top-p 1 --top-k 0 --presence-penalty 0 --verbose -n 20
has "an answer of llama.cpp's Python server is read" "$found $out" "0 <think>"
has "... to whom it is said what is off" "$(last)" '"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0, "max_tokens": 20'
lacks "... and nothing that it cannot do" "$(last)" '"chat_template_kwargs"'
has "... whose context is not known" "$err" "32768 tokens are assumed"
ask interrupted
has "an answer that it ends for another request is a failure" "$found $err" "1 q35chat: the server ended the answer for another request"
is "... and what came stays" "$out" "One moment"
ask nothing/v2
has "what is no such server says so" "$err" "refused (status 404)"
ask sglang --dialect nonsense
is "a dialect that is none is refused" "$found" 2
timeout $patience "$q" --endpoint http://127.0.0.1:1 --no-stdin hello > "$tmp/out" 2> "$tmp/err"
is "nobody there: status" $? 3
has "... and a sentence" "$(cat "$tmp/err")" "no server listens at 127.0.0.1 port 1: start it there, or correct the address"
timeout $patience "$q" --endpoint 127.0.0.1 --no-stdin hello > "$tmp/out" 2> "$tmp/err"
has "an address needs its scheme" "$(cat "$tmp/err")" "expected an address that begins with http:// or https://"

# Endpoints that the config file names.
mkdir -p "$XDG_CONFIG_HOME/q35chat"
cat > "$XDG_CONFIG_HOME/q35chat/q35chat.conf" <<EOF
model = /a/checkpoint
[endpoint two]
url = $at/sglang/two
model = other
[endpoint env]
url = $at/sglang/key
key_env = TEST_KEY
[endpoint file]
url = $at/sglang/key
key_file = $tmp/key
[endpoint both]
url = $at/sglang/key
key_file = $tmp/key
key_env = TEST_KEY
[endpoint empty]
model = x
[endpoint odd]
url = $at/sglang
dialect = nonsense
[endpoint tls]
url = https://127.0.0.1:$(cat "$tmp/port.tls" 2> /dev/null)/sglang
ca_file = $tmp/tls.pem
EOF
named() {       # NAME, options
    timeout $patience "$q" --no-stdin --endpoint "$@" hello > "$tmp/out" 2> "$tmp/err"
    found=$?
    out=$(cat "$tmp/out") err=$(cat "$tmp/err")
}
named two
is "an endpoint has a name" "$found $out" "0 42 is it."
has "... and its model" "$(last)" '"model": "other"'
named two --model tiny
has "... unless another one is asked for" "$(last)" '"model": "tiny"'
named "$at/sglang"
has "a checkpoint in the config file is no model of a server" "$(last)" '"model": "tiny"'
TEST_KEY=secret named env
is "its key comes from a variable" "$found $out" "0 42 is it."
named env
has "... which must be set" "$found $err" "2 q35chat: [endpoint env] takes its key from the environment variable TEST_KEY, which is not set"
TEST_KEY=wrong named env
has "... to the right key" "$err" "did not accept the key from TEST_KEY"
echo secret > "$tmp/key"
chmod 644 "$tmp/key"
named file
has "a file with a key is its owner's alone" "$found $err" "$tmp/key can be read by others: chmod 600"
chmod 600 "$tmp/key"
OPENAI_API_KEY=wrong named file
is "... then it is taken" "$found $out" "0 42 is it."
"$q" --endpoint file --print-config > "$tmp/out" 2>&1
lacks "... and printed nowhere" "$(cat "$tmp/out")" "secret"
has "... but its section is" "$(cat "$tmp/out")" "[endpoint file]"
named both
has "a variable and a file are one too many" "$found $err" "has key_env and key_file, expected one of them"
named empty
has "an address is needed" "$found $err" "[endpoint empty] has the url ''"
named odd
has "a dialect that is none is refused" "$found $err" "nonsense"
named nowhere
has "a name that is none is told with those that there are" "$found $err" "2 q35chat: the endpoint is 'nowhere'"
has "... all of them" "$err" "which has two, env, file, both, empty, odd, tls"
if [ -s "$tmp/port.tls" ]; then
    named tls
    is "its certificate is checked against its own authorities" "$found $out" "0 42 is it."
    named "https://127.0.0.1:$(cat "$tmp/port.tls")/sglang"
    has "... which others do not trust" "$err" "the certificate of 127.0.0.1"
    rm "$tmp/tls.pem"
    named tls
    has "... and must be there" "$found $err" "2 q35chat: cannot read $tmp/tls.pem, the ca_file of [endpoint tls]: No such file"
    mkfifo "$tmp/tls.pem"
    named tls
    has "... as a file" "$found $err" "2 q35chat: $tmp/tls.pem, the ca_file of [endpoint tls], is not a regular file"
fi
rm "$XDG_CONFIG_HOME/q35chat/q35chat.conf"

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
