#!/bin/sh
# Several keys with names: who asks is counted, and the file is read again on SIGHUP.  Histograms as dashboards of vLLM read them.
. tests/remote/serve.inc
[ -n "$demo" ] || { echo "skip needs the demo model"; exit $status; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
umask 077
a=aaaaaaaaaaaaaaaaaaaa b=bbbbbbbbbbbbbbbbbbbb c=cccccccccccccccccccc
printf '# who\nlaptop %s\nci %s\n' $a $b > "$tmp/keys"
begin "$demo" --threads 2 --listen 127.0.0.1:$port --key-file "$tmp/keys"
says() {        # KEY -> the status of a chat completion
    timeout $patience python3 - $port "$1" << 'END'
import http.client, json, sys
c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
c.request("POST", "/v1/chat/completions", json.dumps({"messages": [{"role": "user", "content": "What is 6*7?"}], "temperature": 0}),
          {"Authorization": "Bearer " + sys.argv[2]})
print(c.getresponse().status)
END
}
used() { asks get /metrics | sed -n "s/^q35chat_key_$1_total{key=\"$2\"} //p"; }
again() {
    before=$(grep -c "$1" "$tmp/serve.log")
    kill -HUP $server
    for i in $(seq $((10 * patience))); do [ "$(grep -c "$1" "$tmp/serve.log")" -gt "$before" ] && return; sleep 0.1; done
}
is "both keys are let in" "$(says $a) $(says $a) $(says $b) $(says $c)" "200 200 200 401"
is "requests are counted by name" "$(used requests laptop) $(used requests ci)" "2 1"
is "... and tokens" "$(used prompt_tokens laptop)" $((2 * $(used prompt_tokens ci)))
printf 'laptop %s\nphone %s\n' $c $b > "$tmp/keys"
again "were read again"
is "another file: a new key, one that has another name, one that is gone" "$(says $c) $(says $b) $(says $a)" "200 200 401"
is "... with the counts of the names" "$(used requests laptop) $(used requests ci) $(used requests phone)" "3 1 1"
printf 'laptop short\n' > "$tmp/keys"
again "the keys stay as they were"
is "a broken file changes nothing" "$(says $c)" 200
has "... and is said so" "$(cat "$tmp/serve.log")" "line 1: the key has 5 characters, expected 16 to 4096"

asks get /metrics > "$tmp/metrics"
is "histograms add up" "$(python3 - "$tmp/metrics" << 'END'
import re, sys
rows, kinds = {}, {}
for line in open(sys.argv[1]):
    if line.startswith("# TYPE "):
        _, _, name, kind = line.split()
        assert name not in kinds, name
        kinds[name] = kind
    elif line.strip() and line[0] != "#":
        name, labels, value = re.fullmatch(r"([\w:]+)(?:\{(.*)\})? (\S+)\n?", line).groups()
        assert (name, labels) not in rows, line
        rows[name, labels] = float(value)
n = 0
for name in [k for k in kinds if kinds[k] == "histogram"]:
    buckets = [(float(re.search(r'le="(.*?)"', l).group(1).replace("+Inf", "inf")), v) for (k, l), v in rows.items() if k == name + "_bucket"]
    assert buckets == sorted(buckets) and [v for _, v in buckets] == sorted(v for _, v in buckets), name
    count, total = [v for (k, _), v in rows.items() if k == name + "_count"][0], [v for (k, _), v in rows.items() if k == name + "_sum"][0]
    assert buckets[-1] == (float("inf"), count) and (total > 0) == (count > 0), name
    if name != "vllm:inter_token_latency_seconds":
        assert count == rows["q35chat_requests_total", None] == 6, (name, count)
    n += 1
label = 'model_name="demo"'
assert rows["vllm:request_generation_tokens_sum", label] == rows["vllm:generation_tokens_total", label] == rows["q35chat_tokens_total", None]
assert rows["vllm:inter_token_latency_seconds_count", label] > 6
print(n, "histograms")
END
)" "6 histograms"
"$q" serve stop
wait $server
server=
exit $status
