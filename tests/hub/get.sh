#!/bin/sh
# `q35chat model get` against the test hub: every fault ends in right files or in one sentence and a status; kills lose nothing.
# KILLS=100 sets the number of kills (default 3).
. tests/hub/common.inc
stall=60        # seconds that a busy machine does not need
get() { "$q" model get --range 1 --tries 3 --stall $stall "$@" > "$tmp/out" 2> "$tmp/err"; }
forget() { rm -rf "$tmp/hf" "$tmp/to"; }
same() { # NAME DIRECTORY ORIGINAL: the same files, no other
    if diff -r "$2" "$3" > "$tmp/diff" 2>&1; then ok "$1"; else bad "$1" "$(head -3 "$tmp/diff"; cat "$tmp/err")"; fi
}
leftovers() { find "$tmp/hf" "$tmp/to" -name '*.q35part*' -o -name '*.new' 2> /dev/null | wc -l | tr -d ' '; }

get demo/tiny demo/bytes
is "two repositories" $? 0
same "files of the first, with folders and an empty file" "$(sed -n 1p "$tmp/out")" "$tiny"
same "files of the second" "$(sed -n 2p "$tmp/out")" "$many"
is "nothing else is left" "$(leftovers)" 0
is "refs/main names the commit" "$(basename "$(sed -n 1p "$tmp/out")")" "$(cat "$tmp/hf/hub/models--demo--tiny/refs/main")"
is "large files were read in ranges, each from an address of its own" \
    "$([ "$(hub get bytes)" -ge 9 ] && [ "$(hub get resolve)" -gt "$(hub get bytes)" ] && echo yes)" yes
is "quiet without a terminal" "$(cat "$tmp/err")" ""
"$q" model list > "$tmp/out"
has "model list has it, and takes it by itself" "$(cat "$tmp/out")" "* demo/tiny "
is "model list --json" "$("$q" model list --json | python3 -c '
import json, sys
print([(r["name"], r["complete"], r["default"], r["fits"]) for r in map(json.loads, sys.stdin) if r["name"] == "demo/tiny"])')" \
   "[('demo/tiny', True, True, True)]"
got=$("$q" --model tiny --json -n 3 --temperature 0 hello | python3 -c 'import json, sys; print(json.load(sys.stdin)["model"])')
is "--model with a part of its name answers" "$got" custom
hub set '{}'
get demo/tiny demo/bytes
is "again: nothing is downloaded" "$? $(hub get resolve)" "0 0"
HF_HUB_OFFLINE=1 get demo/bytes
is "offline, what is there is found" "$? $(cat "$tmp/out")" \
    "0 $tmp/hf/hub/models--demo--bytes/snapshots/$(cat "$tmp/hf/hub/models--demo--bytes/refs/main")"
HF_HUB_OFFLINE=1 get demo/none
has "offline, what is not there" "$(cat "$tmp/err")" "HF_HUB_OFFLINE is set"
blob=$(readlink -f "$tmp/hf/hub/models--demo--bytes/snapshots/"*/model-00003-of-00003.safetensors)
printf X | dd of="$blob" bs=1 seek=1000000 conv=notrunc 2> /dev/null
get --check demo/bytes
is "--check finds a file that has rotted" "$? $(cmp "$blob" "$many/model-00003-of-00003.safetensors" && echo same)" "0 same"
has "and says so" "$(cat "$tmp/err")" "model-00003-of-00003.safetensors has a wrong hash; it is downloaded again"
get --to "$tmp/to" demo/bytes
same "--to: files under their own names" "$tmp/to" "$many"
is "which the cache had" "$(stat -c %h "$tmp/to/model-00003-of-00003.safetensors")" 2
forget
get --to "$tmp/to" demo/tiny
same "--to without a cache" "$tmp/to" "$tiny"
printf X | dd of="$tmp/to/tokenizer.json" bs=1 seek=100 conv=notrunc 2> /dev/null
get --to "$tmp/to" demo/tiny
same "--to again, after a file was changed" "$tmp/to" "$tiny"

"$q" model get --json demo/bytes > "$tmp/out" 2> "$tmp/err"
is "--json: every line is an object, the last one says where it is" "$(python3 -c '
import json, sys
rows = [json.loads(l) for l in open(sys.argv[1])]
files = [r for r in rows if r["type"] == "file"]
end = rows[-1]
print(len(files), end["type"], end["ok"], end["repos"][0]["dir"].startswith(sys.argv[2]), end["downloaded"])' "$tmp/out" "$tmp/hf")" \
   "4 end True True $(cat "$many"/* | wc -c)"

on_terminal() { # ENVIRONMENT...: what a terminal was sent
    forget
    hub set '{}'
    env "$@" python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' "$q" model get --range 1 --tries 3 demo/bytes < /dev/null 2>&1 |
        tr -d '\r' > "$tmp/out"
}
rewrites() { tr -d '[:print:]\n' < "$tmp/out" | wc -c | tr -d ' '; }
on_terminal TERM=xterm
is "on a terminal its lines are rewritten" "$([ "$(rewrites)" -gt 0 ] && echo yes)" yes
for set in ACCESSIBLE=1 TERM=dumb; do
    on_terminal TERM=xterm "$set"
    is "with $set lines are only added" "$(rewrites) $(grep -c '^[0-9]*%  ' "$tmp/out")" "0 1"
done

right_after() { # NAME FAULTS: fewer than there are tries, since all may meet the same range
    forget
    hub set "$2"
    get --connections 3 --tries 8 demo/bytes
    is "$1: it ends well" "$? $(cat "$tmp/err")" "0 ${3:-}"
    same "$1: the files are right" "$tmp/hf/hub/models--demo--bytes/snapshots/"* "$many"
}
right_after "connections that end early" '{"truncate": {"after": 300000, "every": 3, "times": 6}}'
stall=1
right_after "connections that stall" '{"stall": {"after": 300000, "every": 4, "times": 2}}'
stall=60
right_after "whole files for ranges, at times" '{"ignore": {"every": 2, "times": 5}}'
right_after "other ranges, at times" '{"shift": {"every": 2, "times": 5}}'
right_after "more than was asked for" '{"extra": {}}'
right_after "errors of the second host" '{"status": {"where": "bytes", "code": 503, "every": 3, "times": 6}}'
right_after "errors of the hub" '{"status": {"where": "resolve", "code": 500, "every": 3, "times": 6}}'
right_after "errors of the list" '{"status": {"where": "list", "code": 502, "every": 2, "times": 6}}'
right_after "signatures for another range" '{"unsigned": {"every": 3, "times": 4}}'
right_after "another commit, at times" '{"commit": {"every": 2, "times": 4}}'
right_after "another hash, at times" '{"etag": {"every": 2, "times": 4}}'
right_after "pages of one entry" '{"page": {"size": 1}}'
forget
hub set '{"limit": {"every": 4, "times": 2, "s": 1, "how": "Retry-After"}}'
get demo/bytes
is "limits with Retry-After: it waits" "$?" 0
same "limits with Retry-After: the files are right" "$tmp/hf/hub/models--demo--bytes/snapshots/"* "$many"
has "limits: it says so" "$(cat "$tmp/err")" "asks to wait for"
forget
hub set '{"limit": {"every": 4, "times": 2, "s": 1, "how": "RateLimit"}}'
get demo/bytes
same "limits with RateLimit: the files are right" "$tmp/hf/hub/models--demo--bytes/snapshots/"* "$many"
forget
hub set '{"corrupt": {"path": "model-00002-of-00003.safetensors", "times": 1}}'
get demo/bytes
is "a wrong byte, once: it ends well" $? 0
same "a wrong byte, once: the files are right" "$tmp/hf/hub/models--demo--bytes/snapshots/"* "$many"
has "a wrong byte: it says so" "$(cat "$tmp/err")" "model-00002-of-00003.safetensors was downloaded with the hash"

fails_with() { # NAME FAULTS SENTENCE [REPO]
    forget
    hub set "$2"
    get --connections 3 --tries 2 "${4:-demo/bytes}"
    is "$1: the status says so" $? 1
    has "$1: a sentence" "$(cat "$tmp/err")" "$3"
    is "$1: one line, the last" "$(tail -1 "$tmp/err" | grep -c "^q35chat: .*$3")" 1
    is "$1: no wrong file has its name" "$(wrong_names)" ""
}
wrong_names() {
    for link in "$tmp"/hf/hub/models--demo--bytes/snapshots/*/*; do
        [ ! -e "$link" ] || cmp -s "$link" "$many/$(basename "$link")" || echo "$link"
    done
}
fails_with "always a wrong byte" '{"corrupt": {"path": "model-00002-of-00003.safetensors"}}' "was downloaded with the hash"
fails_with "always cut off at once" '{"truncate": {"after": 0}}' "tried 2 times"
stall=1
fails_with "always stalling at once" '{"stall": {"after": 0}}' " sent next to nothing for 1 s"
stall=60
fails_with "always expired" '{"ttl": {"s": -1}}' "the signature is wrong or has expired"
fails_with "always another commit" '{"commit": {}}' "changed while it was read"
fails_with "always another hash" '{"etag": {}}' "changed while it was read"
fails_with "always whole files" '{"ignore": {}}' "the hub sent the whole file"
fails_with "redirects in a circle" '{"loop": {}}' "redirects"
for code in 401 403; do
    fails_with "$code" "{\"status\": {\"where\": \"resolve\", \"code\": $code}}" "needs an access token in HF_TOKEN"
done
fails_with "404" '{"status": {"where": "resolve", "code": 404}}' "does not have"
fails_with "416" '{"status": {"where": "bytes", "code": 416}}' "answered status 416"
fails_with "500" '{"status": {"where": "bytes", "code": 500}}' "answered status 500"
fails_with "a path out of the directory" '{"sneak": {"path": "../../../evil"}}' "not a safe relative path"
fails_with "a repository that is not there" '{}' "does not have demo/none" demo/none
hub set '{}'
get whatever
has "a name that is not known" "$(cat "$tmp/err")" "expected 122b, 35b or ORG/NAME[@REVISION]"
get demo/bytes@v9
has "a revision that is not there" "$(cat "$tmp/err")" "does not have demo/bytes, revision v9"
HF_ENDPOINT=http://127.0.0.1:1 get --tries 4 demo/bytes
has "no hub there" "$(tail -n 1 "$tmp/err")" "cannot list demo/bytes of http://127.0.0.1:1, tried 4 times: no server listens at 127.0.0.1 port 1"
has "... which is told before the last attempt" "$(sed -n 1p "$tmp/err")" "; attempt 4 of 4 follows"

# The names of config/repos.def, with small files in their places.
mkdir -p "$tmp/root/Intel" "$tmp/root/Qwen"
cp -r "$many" "$tmp/root/Intel/Qwen3.5-122B-A10B-int4-AutoRound"
cp -r "$many" "$tmp/root/Qwen/Qwen3.5-122B-A10B-FP8"
forget
get
is "122b by itself: two repositories" "$? $(wc -l < "$tmp/out")" "0 2"
same "the first in whole" "$(sed -n 1p "$tmp/out")" "$many"
is "of the second no weights" "$(ls "$(sed -n 2p "$tmp/out")")" config.json

forget
hub set '{"token": {"is": "secret"}}'
HF_TOKEN=secret get demo/bytes
is "with a token" $? 0
is "the hub saw it, the second host never" "$([ "$(hub get tokens_at_hub)" -gt 0 ] && [ "$(hub get bytes)" -gt 0 ] && hub get tokens_elsewhere)" 0
is "nor does any file hold it" "$(grep -rl secret "$tmp/hf" | wc -l)" 0

# Two at once: the first one goes on when the second one has said that.
forget
hub set '{"pace": {"bytes_s": 50000}}'
"$q" model get demo/bytes > /dev/null 2>&1 &
first=$!
while [ "$(leftovers)" -eq 0 ]; do sleep 0.05; done
get demo/bytes
has "a second one at the same time" "$(cat "$tmp/err")" "is being downloaded by another q35chat"
hub set '{}'
wait $first
is "the first one ends well" $? 0

# Ctrl-C.
forget
hub set '{"pace": {"bytes_s": 300000}}'
"$q" model get --range 1 demo/bytes > /dev/null 2> "$tmp/err" &
until [ "$(find "$tmp/hf" -name '*.journal' 2> /dev/null | wc -l)" -gt 0 ]; do sleep 0.05; done
kill -INT $!
wait $!
is "interrupted: the status" $? 130
has "interrupted: it says how to go on" "$(cat "$tmp/err")" "stopped; run the same command again to continue"

get --connections 3 demo/bytes
is "it goes on and ends well" "$? $(cat "$tmp/err")" "0 "
is "and nothing of it comes twice" "$([ "$(hub get body_bytes)" -lt $(($(cat "$many"/* | wc -c) + 1000000)) ] && echo so || hub get body_bytes)" so
blob=$(readlink -f "$tmp/hf/hub/models--demo--bytes/snapshots/"*/model-00003-of-00003.safetensors)
: > "$blob.q35part.journal"
: > "$blob.q35part.journal.new"
: > "$blob.q35part"
get demo/bytes
is "what an earlier download of a whole file has left is removed" "$(leftovers)" 0

# Kills at random moments.
forget
hub set '{"pace": {"bytes_s": 900000}}'
kills=${KILLS:-3} n=0
while [ $n -lt "$kills" ]; do
    "$q" model get --range 1 --connections 3 demo/bytes > /dev/null 2>&1 &
    sleep "$(python3 -c 'import random; print(random.uniform(0.05, 1.5))')"
    kill -9 $! 2> /dev/null
    wait $! 2> /dev/null
    is "kill $((n += 1)): no wrong file has its name" "$(wrong_names)" ""
    n_whole=$(find "$tmp/hf" -path '*/snapshots/*' -type l 2> /dev/null | wc -l)
    [ "$n_whole" -lt 4 ] || forget
done
hub set '{}'
get demo/bytes
is "after $kills kills: it ends well" "$? $(cat "$tmp/err")" "0 "
same "after $kills kills: the files are right" "$tmp/hf/hub/models--demo--bytes/snapshots/"* "$many"
is "after $kills kills: nothing is left" "$(leftovers)" 0
exit $status
