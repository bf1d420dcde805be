#!/bin/sh
# What a server costs beside its engine, with the bundled models: `RUNS` pipe calls (21), `MANY` prompts eight at a time (200).  Figures are for
# reading; nothing here passes or fails.
. tests/remote/serve.inc
[ -n "$demo" ] || { echo "skip these figures need the demo model"; exit 0; }
many=${MANY:-200}
rss() { awk '/^VmRSS/ {print $2}' /proc/$server/status; }
prompts() { seq 1 $many | xargs -n 1 -P 8 sh -c '"$0" --model "$1" --no-stdin --no-think --temperature 0 "What is $2 + 1?" > /dev/null' "$q" \
    "$demo"; }
echo "== one server, load $(cut -d ' ' -f 1 /proc/loadavg)"
begin "$demo"
python3 tests/bench/serve.py first "$q" "$demo" "${RUNS:-21}"
prompts
before=$(rss)
prompts
echo "$many prompts, eight at a time: the server has $before kB before and $(rss) kB after"
"$q" serve stop
wait $server
python3 tests/bench/serve.py client "$q"
begin "$small"
python3 tests/bench/serve.py server "$socket" "$server"
"$q" serve stop
wait $server
server=
