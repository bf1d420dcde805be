#!/bin/sh
# `q35chat bench five` and `bench project`: that their tables fit together.
. tests/pty/common.inc
trap 'rm -rf "$tmp"' EXIT
command -v python3 > /dev/null || { echo "skip the reports' JSON is read with python3"; exit 0; }
[ -n "$demo" ] || { echo "skip the demo model is not here"; exit 0; }
look() { python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); t = [x["rows"] for x in r["tables"]]; print(eval(sys.argv[2]))' "$1" "$2"; }

"$q" bench five --backend cpu --out "$tmp/five" > "$tmp/out" 2> "$tmp/err"
is "five prompts twice end well" "$? $(look "$tmp/five" '(r["complete"], [len(x) for x in t[:2]])')" "0 (True, [5, 5])"
is "the second run repeats the first one, and finds nothing computed" \
    "$(look "$tmp/five" '[(a["tokens"] == b["tokens"], b["cached"]) for a, b in zip(t[0], t[1])]')" "$(python3 -c 'print([(True, 0)] * 5)')"
is "no answer is longer than its limit" "$(look "$tmp/five" '[a["tokens"] <= n for a, n in zip(t[0], (256, 512, 1024, 64, 2048))]')" \
    "[True, True, True, True, True]"
is "with the reading, tokens a second are fewer" "$(look "$tmp/five" 'all(a["all_tok_s"] < a["tok_s"] for a in t[0])')" True
is "a mean is the mean" "$(look "$tmp/five" '[abs(sum(a["all_tok_s"] for a in t[i]) / 5 / t[4][i]["all_tok_s"] - 1) < 1e-6 for i in (0, 1)]')" \
    "[True, True]"
# Bytes of a token: no less than those of a whole step over the tokens that it gave.
is "bytes of a token are those of steps over tokens" \
    "$(look "$tmp/five" '[t[3][0]["gb"] <= m["gb_token"] * m["tokens_step"] <= 6 * t[3][-1]["gb"] for m in t[4]]')" "[True, True]"

"$q" bench project --model "$demo" --backend cpu --bandwidth 100 --rows 3 --out "$tmp/project" > "$tmp/out" 2> "$tmp/err"
is "a projection ends well" "$? $(look "$tmp/project" '(r["complete"], [len(x) for x in t])')" "0 (True, [3, 3, 6, 4])"
is "time there is bytes over bandwidth and share" \
    "$(look "$tmp/project" 'all(abs(s["gb_drafts"] / (100 * s["of_read"] / 100) * 1e3 / s["projected_ms"] - 1) < 1e-6 for s in t[1])')" True
is "the number of drafts is the best one" "$(look "$tmp/project" \
    'all(abs(max(sum(x["acceptance"] ** i for i in range(s["rows"])) * 1e3 / s["projected_ms"] for s in t[1]) / x["tok_s"] - 1) < 1e-6
         for x in t[2])')" True
is "a prompt takes no less than its bytes, and than its arithmetic" \
    "$(look "$tmp/project" 'all(p["ms"] >= max(p["gb"] / 100 * 1e3, p["tflop"] / 95 * 1e3) * 0.999999 for p in t[3])')" True
has "the rule stands beside the figures" "$(cat "$tmp/out")" "time there = bytes / (100 GB/s x share of the plain read"
"$q" bench sweep --synthetic 122b --backend cpu > "$tmp/out" 2> "$tmp/err"
is "random weights are made on a GPU alone" "$? $(grep -c "synthetic weights are made on a GPU" "$tmp/err")" "1 1"
exit $status
