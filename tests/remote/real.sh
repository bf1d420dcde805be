#!/bin/sh
# The conversations of talks.txt, and what the server refuses, with the demo model and servers of other makers.  By hand: PYTHON=FILE is a python, as
# one in a virtual environment, that has transformers[serving] and torch (`transformers serve`, bf16), or xllamacpp, gguf and numpy (the server of
# llama.cpp, fp32).  A server whose packages are missing is skipped.
. tests/remote/serve.inc
python=${PYTHON:-python3}
[ -n "$demo" ] || { echo "skip servers of other makers need the demo model"; exit 0; }
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

starts() {      # WHO COMMAND...: waits until it answers
    who=$1
    shift
    OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} HF_HUB_OFFLINE=1 HF_HUB_CACHE="$tmp/hub" "$@" > "$tmp/$who.log" 2>&1 &
    server=$!
    for i in $(seq $((10 * patience))); do
        python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1] + "/v1/models")' "http://127.0.0.1:$port" 2> /dev/null && return 0
        kill -0 $server 2> /dev/null || break
        sleep 0.1
    done
    bad "$who: it starts" "$(tail -n 3 "$tmp/$who.log")"
    return 1
}
asks_it() { timeout $((5 * patience)) "$q" $where --no-stdin "$@" > "$tmp/out" 2> "$tmp/err"; found=$?; }
holds() {
    python3 -c 'import json, sys
said = lambda a: a["answer"] + a["reasoning"]
a = json.load(open(sys.argv[1]))
print(bool(eval(sys.argv[2])))' "$tmp/out" "$1" 2>&1
}
converses() {   # WHO OPTIONS...: the rows that are for everybody
    who=$1
    shift
    where=$*
    while IFS='|' read -r name whose options holds; do
        [ "$whose" = all ] || continue
        asks_it --json -n 60 $(echo "$options" | sed "s/@/$who/")
        is "$who: $name" "$found $(holds "$holds") $([ $found -eq 0 ] || cat "$tmp/err")" "0 True "
    done < tests/remote/talks.txt
    is "$who: the conversation has three messages and their answers" \
        "$("$q" session export "talk-$who" json 2> /dev/null |
            python3 -c 'import json, sys; print(*[m["role"][0] for m in json.load(sys.stdin)["messages"]])' 2>&1)" "u a u a u a"
    asks_it --json --temperature 0 -n 5 hello
    is "$who: a limit" "$found $(holds 'a["finish"] == "length" and 0 < a["tokens"]["generated"] <= 6')" "0 True"
    asks_it --temperature 0 --tools calculator --json "What is 12*12? Use the calculator."
    is "$who: a tool is called, and its result is read" "$found $(holds '"144" in a["answer"] and a["rounds"] == 2')" "0 True"
    asks_it --temperature 0.7 --top-k 20 --min-p 0.1 --presence-penalty 0.5 --repetition-penalty 1.1 -n 20 hello
    is "$who: every way of sampling is taken, or left out" "$found" 0
    timeout $((5 * patience)) "$q" $where --no-stdin -n 2000 --no-think --temperature 0 --presence-penalty -2 \
        "Tell me a long story." > "$tmp/out" 2> "$tmp/err" &
    job=$!
    for i in $(seq $((10 * patience))); do [ -s "$tmp/out" ] && break; sleep 0.1; done
    kill -INT $job 2> /dev/null
    wait $job
    case $? in 0 | 130) ok "$who: an interrupt ends an answer" ;; *) bad "$who: an interrupt ends an answer" "$(cat "$tmp/err")" ;; esac
    asks_it -n 4 --temperature 0 again
    is "$who: ... and the next one comes" "$found" 0
}

engine_says() { "$q" --no-attach --model "$demo" --no-stdin --no-think --temperature 0 "$@" 2> /dev/null; }

if "$python" -c "import transformers.cli.serving.server" 2> /dev/null && "$python" tests/remote/bf16.py "$demo" "$tmp/bf16" 2> "$tmp/err"; then
    mkdir "$tmp/hub"
    port=$(free_port)
    if starts transformers "$python" -m transformers.cli.transformers serve "$tmp/bf16" --device cpu --port "$port"; then
        converses transformers --endpoint "http://127.0.0.1:$port" --model "$tmp/bf16" --dialect transformers
        asks_it --no-think --temperature 0 "What is 6*7?"
        is "transformers: the answer of the engine" "$found $(cat "$tmp/out")" "0 $(engine_says "What is 6*7?")"
        where="--endpoint http://127.0.0.1:$port"
        asks_it hello
        has "transformers: no model is listed" "$(cat "$tmp/err")" "--model names the one"
        where="--endpoint http://127.0.0.1:$port --model $tmp/none"
        asks_it hello
        has "transformers: a model that it has not" "$found $(cat "$tmp/err")" "1 q35chat: "
    fi
    end
else
    echo "skip transformers serve: $python has no transformers[serving] with torch"
fi

if "$python" -c "import xllamacpp" 2> /dev/null && "$python" tests/remote/to_gguf.py "$demo" "$tmp/demo.gguf" 2> "$tmp/err"; then
    port=$(free_port)
    if starts llamacpp "$python" -c 'import sys, time, xllamacpp
how = xllamacpp.CommonParams()
how.model.path, how.port, how.n_ctx, how.n_parallel, how.cpuparams.n_threads = sys.argv[1], int(sys.argv[2]), 4096, 1, 1
server = xllamacpp.Server(how)
time.sleep(3600)' "$tmp/demo.gguf" "$port"; then
        converses llamacpp --endpoint "http://127.0.0.1:$port"
        for question in "What is 6*7?" "What is the capital of France?" "Tell me a story."; do
            asks_it --no-think --temperature 0 -n 40 "$question"
            is "llamacpp: '$question' has the answer of the engine" "$found $(cat "$tmp/out")" "0 $(engine_says -n 40 "$question")"
        done
        asks_it --temperature 0 --json -n 200 "What is 12 + 30?"
        is "llamacpp: reasoning comes as reasoning" "$found $(holds 'a["reasoning"] and "</think>" not in said(a)')" "0 True"
        python3 -c 'print("word " * 6000)' > "$tmp/long"
        timeout $((5 * patience)) "$q" $where -n 4 hello < "$tmp/long" > "$tmp/out" 2> "$tmp/err"
        is "llamacpp: a context that is too small is told with both numbers" "$? $(grep -c '([0-9]* tokens).*(4096 tokens)' "$tmp/err")" "4 1"
        where="$where --model none"
        asks_it hello
        is "llamacpp: a model that it has not" "$found $(cat "$tmp/err")" "3 q35chat: the server has no model none; it has $tmp/demo.gguf"
    fi
    end
else
    echo "skip llamacpp: $python has no xllamacpp with gguf and numpy"
fi

exit $status
