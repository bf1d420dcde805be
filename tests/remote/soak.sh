#!/bin/sh
# A day's mixed traffic in an hour, run by hand: MINUTES=60 sh tests/remote/soak.sh.  Conversations, pipes and other programs' requests use one
# server; clients are killed with -9 at random moments, now and then the server as well, which is started again at once.
#   - who is not killed is answered, or told in one sentence why not: the queue is full, or the server was killed;
#   - a turn whose answer was printed to its end stands in its conversation's file, and every file opens;
#   - a server has the same memory and descriptors at the end of its life as after a warm-up; nothing is left behind.
. tests/remote/serve.inc
[ -n "$demo" ] || { echo "skip the traffic needs the demo model"; exit 0; }
command -v curl > /dev/null || { echo "skip the requests of other programs need curl"; exit 0; }
minutes=${MINUTES:-60}
grows=${GROWS:-8192}                    # kB that a server may have gained from the warm-up to its end
slowest=$((5 * patience))               # seconds until an answer is missed, with all the others before it
export TMPDIR=$tmp/temporary
mkdir "$TMPDIR" "$tmp/told" "$tmp/worker"
sessions=$XDG_STATE_HOME/q35chat/sessions
head -c 3000 "$root/docs/pipes.md" > "$tmp/long.txt"
head -c 700 "$root/docs/serve.md" > "$tmp/short.txt"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

random() { echo $(($(od -An -N4 -tu4 /dev/urandom) % $1)); }
pause() { ms=$(random "$1") && sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"; }
note() { echo "$*" >> "$tmp/figures"; }
noted() { grep -c "^$1" "$tmp/figures"; }
summed() { awk -v w="$1" '$1 == w { n += $2 } END { printf "%d", n }' "$tmp/figures"; }
lines() { { cat "$1"; echo; } >> "$tmp/json.$worker"; }         # kept, to see at the end that each is JSON
fault() { echo "$(date +%T) $worker: $*" | tr '\n' ' ' >> "$tmp/faults"; echo >> "$tmp/faults"; }

# -- The server: each has a number; an odd one says that it is being killed and started anew.
number=1
turns_to() { number=$1; echo "$number" > "$tmp/number.new" && mv "$tmp/number.new" "$tmp/number"; }
starts() {
    begin "$demo" --listen 127.0.0.1:$port --queue 6 --keep 0
    grep -q "tokens of context" "$tmp/status" || { fault "the server does not start: $(cat "$tmp/serve.log")"; return 1; }
    turns_to $((number + 1))
}
kills() {
    turns_to $((number + 1))
    kill -9 $server 2> /dev/null || fault "the server has ended by itself: $(cat "$tmp/serve.log")"
    wait $server 2> /dev/null
}
memory() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' /proc/$server/status; }
descriptors() { ls /proc/$server/fd | wc -l; }
# Everybody waits, nothing is asked: sets $kb and $open.
quiet() {
    : > "$tmp/hush"
    for i in $(seq $((5 * slowest))); do [ "$(ls "$tmp"/worker/*/still 2> /dev/null | wc -l)" = "$workers" ] && break; sleep 0.2; done
    for i in $(seq $((5 * patience))); do
        [ "$(figure running) $(figure waiting) $(figure clients)" = "0 0 1" ] && break
        sleep 0.2
    done
    [ "$(figure running) $(figure waiting) $(figure clients)" = "0 0 1" ] ||
        fault "nobody asks, but the server has $(asks get /metrics | grep -E '^q35chat_(running|waiting|clients)' | tr '\n' ' ')"
    kb=$(memory) open=$(descriptors)
}
counted() { for f in tokens requests requests_overloaded requests_left answers answers_failed; do note "total_$f $(figure ${f}_total)"; done; }

# -- Clients.
alive() {       # is there time for one more?
    while [ -e "$tmp/hush" ]; do : > "$work/still"; sleep 0.2; done
    rm -f "$work/still"
    [ "$(date +%s)" -lt "$until" ]
}
# One call, one of six killed: $rc, $work/out, $work/err; $calm: the server was there all the time.
call() {
    before=$(cat "$tmp/number")
    "$@" > "$work/out" 2> "$work/err" < /dev/null &
    job=$!
    note call "$worker"
    if [ "$(random 6)" = 0 ]; then
        pause $((1000 + 1000 * $(random 12)))
        kill -9 $job 2> /dev/null && note killed "$worker"
    fi
    wait $job 2> /dev/null
    rc=$?
    [ "$before $((before % 2))" = "$(cat "$tmp/number") 0" ] && calm=1 || calm=
}
# What a program of ours said: its answer, or one sentence that has a reason.
judged() {
    said=$(grep -c '^q35chat: ' "$work/err")
    case $rc in
    0) [ "$(tail -c 1 "$work/out" | od -An -tx1)" = " 0a" ] || fault "status 0 and no answer: $*: $(cat "$work/err")" ;;
    137) [ ! -s "$work/err" ] || [ "$said" = "$(wc -l < "$work/err")" ] || fault "killed: $*: $(cat "$work/err")" ;;
    *)
        last=$(tail -n 1 "$work/err")
        case $last in
        "q35chat: "*"status 429"* | *"requests wait already"*) note busy "$last" ;;
        "q35chat: "?*) [ -z "$calm" ] && note broken "$last" || fault "status $rc: $*: $(cat "$work/err")" ;;
        *) fault "status $rc, without a sentence: $*: $(cat "$work/err")" ;;
        esac ;;
    esac
}
ask() { call "$q" --model "$demo" --no-stdin --timeout $slowest -n $((6 + $(random 24))) "$@"; judged "$@"; }

# A conversation's file opens, and has the answers that were printed.
holds() {       # NAME
    "$q" session export "$1" json > "$work/export" 2> "$work/err" || fault "$1 does not open: $(cat "$work/err")"
    ! grep -q damaged "$work/err" "$work/export" || fault "$1 is damaged: $(cat "$work/err")"
    python3 - "$tmp/told/$1" "$work/export" << 'END' > "$work/lost" 2>&1 || fault "$1 is not read: $(cat "$work/lost")"
import json, os, sys
messages = json.load(open(sys.argv[2]))["messages"]
answers = {m["content"].split(":")[0]: n["content"] for m, n in zip(messages, messages[1:]) if m["role"] == "user" and n["role"] == "assistant"}
for name in os.listdir(sys.argv[1]):
    turn, how = name.rsplit(".", 1)
    said = open(os.path.join(sys.argv[1], name)).read()
    said = json.loads(said)["answer"] if how == "json" else said
    if turn not in answers or said.strip() != answers[turn].strip():
        print("turn %s: printed %r, stands there %r" % (turn, said, answers.get(turn)))
END
    [ ! -s "$work/lost" ] || fault "$1 lost $(cat "$work/lost")"
}
# Has a program written to it, or told that it has an answer?
exists() { [ -s "$sessions/$1.jsonl" ] || [ -n "$(ls "$tmp/told/$1")" ]; }
talk() {        # conversations, each of up to 24 turns, each turn a program of its own
    i=0
    while alive; do
        i=$((i + 1)) name=$worker-$i turn=0 turns=$((4 + $(random 20)))
        mkdir "$tmp/told/$name"
        while [ $turn -lt $turns ] && alive; do
            turn=$((turn + 1))
            pause 3000          # attached chats go first: without a pause nobody else would have a turn
            [ -s "$sessions/$name.jsonl" ] && to=-r || to=--save
            case $(random 4) in
            0) how=--no-stream file= ;;
            1) how=--no-stream file="--file $tmp/short.txt" ;;
            *) how=--json file= ;;
            esac
            think=
            [ "$(random 2)" = 1 ] || think=--no-think
            ask $how $think $file $to "$name" "Turn $turn: what is $(random 90) + $(random 90)?"
            # Of a killed program, too, when it had printed all.
            if [ "$rc" = 0 ] || { [ "$rc" = 137 ] && [ "$(tail -c 1 "$work/out" | od -An -tx1)" = " 0a" ]; }; then
                cp "$work/out" "$tmp/told/$name/Turn $turn.${how#--}"
                note told
            fi
            [ "$rc" = 0 ] || ! exists "$name" || holds "$name"
        done
        ! exists "$name" || holds "$name"
        note conversation
    done
}
pipes() {       # prompts without a conversation
    while alive; do
        case $(random 5) in
        0) ask --file "$tmp/short.txt" "What is this?" ;;
        1) ask --file "$tmp/long.txt" --no-think "What is this?" ;;
        2) ask --json "What is $(random 90) * $(random 9)?"; [ "$rc" != 0 ] || lines "$work/out" ;;
        3) ask --jsonl "Say hello."; [ "$rc" != 0 ] || lines "$work/out" ;;
        4) ask --no-attach "Who are you?" ;;
        esac
    done
}
# A request of another program over the socket or the port: $code, $work/body.
request() {     # PATH BODY curl's options
    path=$1 body=$2
    shift 2
    if [ "$(random 2)" = 0 ]; then set -- --unix-socket "$socket" "http://localhost$path" "$@"; else
        set -- -H "Authorization: Bearer $(cat "$XDG_CONFIG_HOME/q35chat/serve.key")" "http://127.0.0.1:$port$path" "$@"
    fi
    [ -z "$body" ] || set -- --data-binary "$body" "$@"
    call curl -sS --max-time $slowest -o "$work/body" -w '%{http_code}' "$@"
    code=$(cat "$work/out")
}
expects() {     # STATUS PATTERN: that status and a line of the body, or 429, or the kill of one of them
    case $rc:$code in
    137:*) ;;
    0:429) note busy "curl: status 429"; grep -q '"message"' "$work/body" || fault "429 without a sentence: $(cat "$work/body")" ;;
    0:$1) grep -q -- "$2" "$work/body" || fault "$path: '$2' is not in $(head -c 600 "$work/body")" ;;
    *) [ -z "$calm" ] && note broken "curl: exit $rc, status $code" ||
        fault "$path $body: curl $rc, status $code: $(cat "$work/err") $(head -c 600 "$work/body")" ;;
    esac
    [ "$rc:$code" = 0:200 ]
}
# The same, come again when the queue was full.
patient() {     # PATH BODY PATTERN curl's options
    wanted=$3
    for i in 1 2 3 4 5 6 7 8 9; do
        request "$1" "$2" $4
        expects 200 "$wanted" && return
        [ "$rc:$code" = 0:429 ] || return
        note again
        sleep 2
    done
}
chat='"messages": [{"role": "user", "content": "What is 6*7?"}]'
http() {
    while alive; do
        : > "$work/body"
        some=$((4 + $(random 20)))
        case $(random 14) in
        0 | 1) patient /v1/chat/completions "{$chat, \"stream\": true, \"max_tokens\": $some}" '^data: \[DONE\]' ;;
        2) ! patient /v1/chat/completions "{$chat, \"max_tokens\": $some}" '"finish_reason"' || lines "$work/body" ;;
        3) ! patient /v1/completions "{\"prompt\": \"one two three\", \"max_tokens\": $some}" '"finish_reason"' || lines "$work/body" ;;
        4) patient /v1/completions "{\"prompt\": [64, 309, 275], \"stream\": true, \"logprobs\": 3, \"max_tokens\": $some}" '^data: \[DONE\]' ;;
        5) request /tokenize "{$chat}"; expects 200 '"tokens": \[' ;;
        6) request /detokenize '{"tokens": [64, 309, 275]}'; expects 200 '"content"' ;;
        7) request /metrics ""; expects 200 '^q35chat_tokens_total [0-9]' ;;
        8) request /v1/chat/completions "{$chat"; expects 400 "the body is not JSON" ;;
        9) request /v1/chat/completions "{$chat, \"n\": 2}"; expects 400 "n is not" ;;
        10) request /v1/models ""; expects 200 '"id": "demo"' ;;
        11) patient /v1/chat/completions "{$chat, \"stream\": true, \"max_tokens\": 30, \"logprobs\": true, \"top_logprobs\": 4}" '^data: \[DONE\]' \
            "--limit-rate 2000" ;;
        12) leaves ;;
        13) sleeps ;;
        esac
    done
}
# A client that stops reading in the middle of a long stream, and then goes on or is killed.
sleeps() {
    : > "$work/stream"
    before=$(cat "$tmp/number")
    curl -sS -N --max-time $((2 * slowest)) --unix-socket "$socket" http://localhost/v1/chat/completions -o "$work/stream" \
        -d "{$chat, \"stream\": true, \"max_tokens\": 1000, \"logprobs\": true, \"top_logprobs\": 8, $unending}" 2> "$work/err" &
    asleep=$!
    note call "$worker"
    for i in $(seq 100); do [ -s "$work/stream" ] || ! kill -0 $asleep 2> /dev/null || { sleep 0.1; continue; }; break; done
    kill -STOP $asleep 2> /dev/null
    for i in $(seq $((10 + $(random 50)))); do
        [ ! -e "$tmp/hush" ] && [ "$(figure unread)" = 0 ] || break
        sleep 1
    done
    case $(figure unread) in '' | 0) ;; *) note unread "$worker" ;; esac
    if [ "$(random 2)" = 0 ]; then kill -9 $asleep 2> /dev/null && note killed "$worker"; else kill -CONT $asleep 2> /dev/null; fi
    wait $asleep 2> /dev/null
    rc=$?
    case $rc in
    137) return ;;
    0) ! grep -q '"queue_full"' "$work/stream" || { note busy "curl: status 429"; return; } ;;
    esac
    [ $rc = 0 ] && grep -q '^data: \[DONE\]' "$work/stream" && return
    [ "$before $((before % 2))" = "$(cat "$tmp/number") 0" ] && fault "asleep: curl $rc: $(cat "$work/err") $(tail -c 300 "$work/stream")" ||
        note broken "curl: exit $rc"
}
# A client that closes in the middle of a long stream.
leaves() {
    : > "$work/stream"
    curl -sS -N --max-time $slowest --unix-socket "$socket" http://localhost/v1/completions -o "$work/stream" \
        -d '{"prompt": "a b c", "stream": true, "max_tokens": 400, "presence_penalty": -2}' 2> /dev/null &
    left=$!
    for i in $(seq 100); do [ -s "$work/stream" ] || ! kill -0 $left 2> /dev/null || { sleep 0.1; continue; }; break; done
    pause 1500
    kill -9 $left 2> /dev/null && note killed "$worker"
    wait $left 2> /dev/null
    note call "$worker"
}
# More at once than the queue holds: everybody is told.
crowd() {
    while alive; do
        since=$(cat "$tmp/number") jobs=
        for i in $(seq 12); do
            curl -sS --max-time $slowest --unix-socket "$socket" http://localhost/v1/chat/completions -o "$work/body.$i" -w '%{http_code}\n' -d \
                "{$chat, \"max_tokens\": 4}" \
                > "$work/code.$i" 2> /dev/null &
            jobs="$jobs $!"
            note call "$worker"
        done
        for j in $jobs; do wait "$j"; done
        for i in $(seq 12); do
            case $(cat "$work/code.$i") in
            200) lines "$work/body.$i" ;;
            429) note busy "curl: status 429" ;;
            *) [ "$since $((since % 2))" != "$(cat "$tmp/number") 0" ] && note broken "curl: of a crowd" ||
                fault "status $(cat "$work/code.$i"): $(cat "$work/body.$i")" ;;
            esac
        done
        for i in $(seq $((20 + $(random 20)))); do alive || break; sleep 1; done
    done
}
works() {       # NAME FUNCTION
    worker=$1 work=$tmp/worker/$1
    mkdir "$work"
    # A worker that has ended is still, too.
    ( trap - EXIT; "$2"; : > "$work/still"; : > "$work/ended" ) 2>> "$tmp/shell.log" &
    all="$all $!" workers=$((workers + 1))
}

# -- The time: servers of two to four minutes (of a fifth of a short run or two), and at last one with what is left, a third or more.
begun=$(date +%s) until=$((begun + 60 * minutes))
shortest=$((12 * minutes))
[ $shortest -lt 120 ] || shortest=120
worker=server work=$tmp/worker workers=0 all= lives=0 most=0
: > "$tmp/figures"
: > "$tmp/faults"
starts || { cat "$tmp/faults"; exit 1; }
unending="\"chat_template_kwargs\": {\"enable_thinking\": false}, \"logit_bias\": {$(asks post /tokenize \
    '{"content": "<|im_end|><|endoftext|>", "parse_special": true}' | python3 -c '
import json, sys
print(", ".join("\"%d\": -100" % t for t in json.loads(sys.stdin.read().split(" ", 1)[1])["tokens"]))')}"
for i in 1 2 3; do works talk$i talk; done
for i in 1 2; do works pipe$i pipes; done
for i in 1 2 3; do works http$i http; done
works crowd crowd
worker=server work=$tmp/worker

life() {        # SECONDS: traffic, and what the server has gained
    ends=$(($(date +%s) + $1))
    sleep $(($1 / 3))
    quiet
    first=$kb open_first=$open
    rm -f "$tmp/hush"
    while [ "$(date +%s)" -lt $ends ]; do sleep 1; done
    quiet
    counted
    gained=$((kb - first)) held=$((open - open_first))
    lives=$((lives + 1))
    echo "# server $lives: $first kB and $open_first descriptors after the warm-up, $kb and $open at its end"
    [ $gained -le $most ] || most=$gained
    [ -n "$SAN" ] || [ $gained -lt "$grows" ] || fault "the server has grown by $gained kB"
    [ $held -le 0 ] || fault "the server holds $held more descriptors: $(ls -l /proc/$server/fd | tail -n 20)"
}
while [ $(($(date +%s) + shortest * 2)) -lt $((until - 20 * minutes)) ]; do
    life $((shortest + $(random $shortest)))
    rm -f "$tmp/hush"
    pause 8000
    kills
    starts || break
    note restarted
done
left=$((until - $(date +%s) - 5))
[ $left -lt 10 ] || life $left
rm -f "$tmp/hush"
for i in $(seq $((2 * slowest))); do [ "$(ls "$tmp"/worker/*/ended 2> /dev/null | wc -l)" = "$workers" ] && break; sleep 1; done
is "every client comes to its end" "$(ls "$tmp"/worker/*/ended | wc -l)" "$workers"

# -- What is left.
is "the last server is told to end" "$("$q" serve stop 2>&1)" ""
wait $server
is "... and does so" $? 0
server=
mine() {
    for p in /proc/[0-9]*; do
        [ "$(readlink "$p/exe")" = "$q" ] && grep -qzF "XDG_RUNTIME_DIR=$tmp/" "$p/environ" && echo "${p#/proc/} $(tr '\0' ' ' < "$p/cmdline")"
    done 2> /dev/null
}
is "no process is left" "$(mine)" ""
is "no temporary file is left" "$(ls -A "$TMPDIR")" ""
is "no socket is left" "$(find "$tmp/run" -type s)" ""
worker=end
for d in "$tmp"/told/*; do ! exists "${d##*/}" || { name=${d##*/}; holds "$name"; }; done
# Files of killed programs among the conversations: the next delete takes those that are a day old.
rest() { find "$sessions" -type f \( ! -name '*.jsonl' ! -name '*.jsonl.checkpoint' -o -empty \); }
stayed=$(rest | wc -l)
rest | while read -r f; do touch -d '2 days ago' "$f"; done
"$q" session rm "$name" > "$tmp/out" 2>&1 || fault "$name is not deleted: $(cat "$tmp/out")"
is "no file is left among the conversations, once it is a day old" "$(rest)" ""
cat "$tmp"/json.* 2> /dev/null | python3 -c '
import json, sys
n = 0
for line in sys.stdin:
    if line.strip():
        json.loads(line)
        n += 1
print(n > 0)' > "$tmp/out" 2>&1
is "all JSON is JSON" "$(cat "$tmp/out")" "True"
broken() { grep -c "$1" "$tmp/faults"; }
is "no printed turn is lost" "$(broken ' lost ')" 0
is "every conversation opens" "$(broken 'does not open\|is damaged\|is not read')" 0
is "no server has grown" "$(broken 'has grown\|more descriptors')" 0
is "everybody else was answered or told why not" \
    "$(grep -vc ' lost \|does not open\|is damaged\|is not read\|has grown\|more descriptors' "$tmp/faults")" 0
sort "$tmp/faults" | head -n 40 | cut -c 1-1500 | sed 's/^/# /'
[ ! -s "$tmp/shell.log" ] || { sort "$tmp/shell.log" | uniq -c | head -n 20 | sed 's/^/# /'; }
sed -n 's/^\(busy\|broken\) //p' "$tmp/figures" | sed "s|$tmp|DIR|g" | sort | uniq -c | sort -rn | head -n 20 | sed 's/^/# /'
echo "# $minutes minutes: $(noted call) calls, $(summed total_tokens) tokens, $(noted conversation) conversations with $(noted told) printed turns," \
    "$(noted killed) clients and $(noted restarted) servers killed, $(noted busy) times 429 ($(noted again) came again)," \
    "$(noted unread) saw answers wait for their readers, $(noted broken) broken off with the server;" \
    "servers gained $most kB at most; $stayed files of killed programs"
exit $status
