#!/bin/sh
# A server asks its model a question before the first client: /health is red when the answer cannot be right.
. tests/remote/serve.inc
[ -n "$demo" ] || { echo "skip needs the demo model"; exit $status; }
# A copy of the model with other bytes in its first shard: NaN, or its own in another order, but for the samples that its fingerprint is made of.
damage() {      # nan | order
    rm -rf "$tmp/damaged"
    cp -r "$demo" "$tmp/damaged"
    chmod -R u+w "$tmp/damaged"
    python3 - "$tmp/damaged/model-00001-of-00002.safetensors" "$1" << 'END'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
if sys.argv[2] == "nan":
    data[len(data) // 5:len(data) * 9 // 10] = b"\xff" * (len(data) * 9 // 10 - len(data) // 5)
else:
    samples = [(len(data) - 4096) // 15 * i for i in range(16)]
    for a, b in zip(samples[5:12], samples[6:13]):
        data[a + 4096:b] = data[a + 4096:b][::-1]
open(sys.argv[1], "wb").write(data)
END
}
health() { asks get /health; }
begin "$demo" --threads 2
has "a model that answers as it did is sound" "$(health)" '"status": "ok"'
is "... and the question is in no figure" "$(figure requests_total) $(figure tokens_total)" "0 0"
"$q" serve stop
wait $server
damage nan
begin "$tmp/damaged" --threads 2
has "NaN in the weights are found" "$(health)" '"status": "failed"'
has "... with a sentence" "$(health)" "the self-check failed: the logit of id 0 is"
"$q" serve status > "$tmp/out" 2>&1
is "... and the status has it" "$? $(grep -c 'self-check' "$tmp/out")" "1 1"
"$q" serve stop
wait $server
damage order
begin "$tmp/damaged" --threads 2
has "numbers that are possible, and wrong, are found in a known model" "$(health)" "expected '6 * 7 = 42.': the weights or the device are damaged"
has "... and requests are answered all the same" \
    "$(asks post /v1/chat/completions '{"max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}')" "200 "
"$q" serve stop
wait $server
begin "$tmp/damaged" --threads 2 --no-self-check
has "it can be left out" "$(health)" '"status": "ok"'
"$q" serve stop
wait $server
server=
exit $status
