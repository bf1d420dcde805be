#!/bin/sh
# `q35chat bench report`: that it ends well, also by Ctrl-C, and that it names no folder, user or host.
. tests/pty/common.inc
trap 'rm -rf "$tmp"' EXIT
command -v python3 > /dev/null || { echo "skip the report's JSON is read with python3"; exit 0; }
dir="$tmp/home of zaphod/his models"
[ -n "$demo" ] || { echo "skip the demo model is not here"; exit 0; }
mkdir -p "$dir"
for f in "$demo"/*; do
    [ -d "$f" ] || cp "$f" "$dir/"
done
export HOME="$tmp/home of zaphod" USER=zaphod LOGNAME=zaphod
host=$(uname -n)
named=
if unshare -u true 2> /dev/null; then   # a host name that nothing else is called by
    host=heart-of-gold
    named="unshare -u sh -c 'echo $host > /proc/sys/kernel/hostname; exec \"\$@\"' sh"
fi
report() { eval "$named" '"$q" bench report "$@"'; }
look() { python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"; }

report --model "$dir" --backend cpu --ctx 1024 --out "$tmp/report.json" > "$tmp/out" 2> "$tmp/err"
is "it ends well" "$? $(cat "$tmp/err")" "0 "
is "as JSON it is complete, with all tables, each with rows" \
    "$(look "$tmp/report.json" '(r["bench"], r["complete"], [len(t["rows"]) > 0 for t in r["tables"]])')" \
    "('report', True, [True, True, True, True, True])"
is "it tells machine, program, model and loading" \
    "$(look "$tmp/report.json" '[k for k in ("system", "processors", "host memory", "plain read", "version", "commit", "model", "formats", "loading",
        "a token") if not r["facts"].get(k)]')" "[]"
is "the five prompts are asked" "$(look "$tmp/report.json" '[a["prompt"] for a in r["tables"][0]["rows"]]')" \
    "['prose', 'code', 'json', 'sum', 'long code']"
is "no draft is accepted that was not made" "$(look "$tmp/report.json" 'all(0 <= d["accepted"] <= d["drafted"] for d in r["tables"][1]["rows"])')" \
    True
is "what is projected is bytes over the plain read" "$(look "$tmp/report.json" \
    '[abs(p["projected"] * p["gb"] / p["tokens_step"] / (100 * s["gb_s"] / s["of_read"]) - 1) < 1e-4
      for s in r["tables"][2]["rows"][:1] for p in r["tables"][4]["rows"]]')" \
    "[True, True]"
for word in zaphod "$host" "$tmp" "$(basename "$dir")"; do
    is "'$word' is not in it" "$(grep -cF "$word" "$tmp/out" "$tmp/report.json" | tr '\n' ' ')" "$tmp/out:0 $tmp/report.json:0 "
done

: > "$tmp/cut"
"$q" bench report --backend cpu --out "$tmp/cut.json" > "$tmp/cut" 2> "$tmp/err" &
until grep -q '^prose' "$tmp/cut" || ! kill -0 $! 2> /dev/null; do sleep 0.05; done
kill -INT $!
wait $!
is "Ctrl-C ends it" "$? $(cat "$tmp/err")" "130 "
is "with what there is so far" "$(look "$tmp/cut.json" '(r["complete"], "stopped before its end" in r["notes"], len(r["tables"][0]["rows"]) > 0)')" \
    "(False, True, True)"
has "as text, too" "$(cat "$tmp/cut")" "note: stopped before its end"
is "without --model it says that it took the demo" "$(grep -c '^note: the demo model, since no other is on this machine' "$tmp/cut")" 1

"$q" bench report --model "$tmp/nowhere" > "$tmp/out" 2> "$tmp/err"
is "a model that is not there fails" "$? $(grep -c "$tmp" "$tmp/out")" "1 0"
has "... with a sentence" "$(cat "$tmp/err")" "$tmp/nowhere"
"$q" bench report --synthetic 122b > "$tmp/out" 2> "$tmp/err"
has "random weights are refused" "$(cat "$tmp/err")" "--synthetic, --layers, --sms and --kv-in are for the other measurements"

is "drafts are told by source and position" \
    "$(look "$tmp/report.json" 'all(d["source"] in ("mtp", "lookup") and 1 <= d["position"] <= 7 for d in r["tables"][1]["rows"])')" True
"$q" bench project --model "$dir" --backend cpu --ctx 600 > "$tmp/out" 2> "$tmp/err"
is "so is a context that steps do not fit in" "$? $(grep -c 'the context has 600 tokens, steps are measured in 1024' "$tmp/err")" "1 1"
mkdir -p "$tmp/ro" && : > "$tmp/ro/.local"
HOME="$tmp/ro" XDG_STATE_HOME= "$q" bench health --backend cpu > "$tmp/out" 2> "$tmp/err"
is "bench health measures where nothing can be written, and says so" \
    "$? $(grep -c '^plain read' "$tmp/out") $(grep -c 'could not be remembered' "$tmp/out")" "0 1 1"
exit $status
