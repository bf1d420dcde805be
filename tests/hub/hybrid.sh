#!/bin/sh
# `q35chat model build-hybrid` from repositories of the test hub: INT4 downloaded, a few ranges of the FP8 one.
# KILLS=100 sets the number of kills (default 3).
. tests/hub/common.inc
int4=$tmp/root/demo/int4 fp8=$tmp/root/demo/fp8 out=$tmp/out-hybrid
mkdir -p "$int4"
cp tests/data/model/g1/int4/[cm]* "$int4/"
python3 tests/hub/donor.py tests/data/model/g1/hybrid "$fp8" || exit 1
build() { "$q" model build-hybrid --int4 demo/int4 --fp8 demo/fp8 --out "$out" "$@" > "$tmp/said" 2> "$tmp/err"; }
same() { if diff -r "$2" "$3" > "$tmp/diff" 2>&1; then ok "$1"; else bad "$1" "$(head -3 "$tmp/diff"; cat "$tmp/err")"; fi; }

build
is "what was not downloaded is refused" "$? $(cat "$tmp/err")" \
    "1 q35chat: demo/int4 is not on this machine: \`q35chat model get demo/int4\` fetches it"
"$q" model build-hybrid --int4 122b --fp8 122b --out "$out" > /dev/null 2> "$tmp/err"
has "names stand for repositories" "$(cat "$tmp/err")" "122b is not on this machine: \`q35chat model get 122b\` fetches it"
"$q" model get demo/int4 > /dev/null 2> "$tmp/err" || bad "get" "$(cat "$tmp/err")"
hub set '{}'
build --json
is "it is built" "$? $(cat "$tmp/err")" "0 "
cp "$tmp/said" "$tmp/report"
is "only ranges of the FP8 release were fetched" \
    "$(python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
print(r["state"], r["fp8_matrices"], r["fp8_read_bytes"] < int(sys.argv[2]) / 4)' \
        "$tmp/said" "$(cat "$fp8"/*.safetensors | wc -c)")" "built 12 True"
is "shards are links into the cache" "$(stat -c %h "$out/model-00001-of-00002.safetensors")" 2
has "repository and commit are recorded" "$(cat "$out/q35chat-provenance.json")" '"repo": "demo/fp8"'
"$q" model build-hybrid --int4 "$int4" --fp8 "$fp8" --out "$tmp/local" > /dev/null 2> "$tmp/err"
rm -f "$tmp/local/q35chat-provenance.json"
cp -r "$out" "$tmp/plain" && rm -f "$tmp/plain/q35chat-provenance.json"
same "the same as from directories" "$tmp/plain" "$tmp/local"
"$q" model verify --full "$out" > "$tmp/said" 2>&1
is "verify finds it sound, and every hash recorded" "$? $(grep -c 'recorded a hash\|FAULT' "$tmp/said")" "0 0"
build
has "again: nothing to do" "$(cat "$tmp/said")" "was built before from these checkpoints: nothing to do"
cp -r "$out" "$tmp/right"

faults() { # NAME FAULTS
    rm -rf "$out"
    hub set "$2"
    build
    is "$1: it is built" "$?" 0
    same "$1: and right" "$out" "$tmp/right"
}
faults "connections that end early" '{"truncate": {"after": 5000, "every": 3}}'
faults "whole files for ranges, at times" '{"ignore": {"every": 5, "times": 5}}'
faults "other ranges, at times" '{"shift": {"every": 5, "times": 5}}'

# Kills at random moments of a build that takes about a second; --compact, which writes shards, every other time.
"$q" model build-hybrid --int4 demo/int4 --fp8 demo/fp8 --out "$tmp/right-compact" --compact > /dev/null 2> "$tmp/err" ||
    bad "--compact" "$(cat "$tmp/err")"
fp8_bytes=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["fp8_read_bytes"])' "$tmp/report")
i=0 n=${KILLS:-3} under_way=0
while [ $i -lt "$n" ]; do
    if [ $((i % 2)) -eq 0 ]; then how= right=$tmp/right; else how=--compact right=$tmp/right-compact; fi
    rm -rf "$out"
    hub set "{\"pace\": {\"bytes_s\": $fp8_bytes}}"
    "$q" model build-hybrid --int4 demo/int4 --fp8 demo/fp8 --out "$out" $how > /dev/null 2>&1 & pid=$!
    sleep "$(awk -v s=$i 'BEGIN { srand(s); printf "%.3f", rand() * 1.3 }')"
    kill -9 $pid 2> /dev/null
    wait $pid 2> /dev/null
    [ $? -ne 137 ] || under_way=$((under_way + 1))
    [ ! -e "$out" ] || diff -r "$out" "$right" > "$tmp/diff" || bad "kill $i leaves a directory that is not whole" "$(head -3 "$tmp/diff")"
    hub set '{}'
    build $how || bad "after kill $i" "$(cat "$tmp/err")"
    diff -r "$out" "$right" > "$tmp/diff" || bad "after kill $i" "$(head -3 "$tmp/diff")"
    [ ! -e "$out.part" ] || bad "after kill $i" "$out.part is left"
    i=$((i + 1))
done
ok "killed $n times, $under_way of them under way: the next run completes it"
exit $status
