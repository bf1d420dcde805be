#!/bin/sh
# `q35chat serve`: what clients are told, what is refused, who waits for whom.
. tests/remote/serve.inc
"$q" serve status > "$tmp/out" 2>&1
is "without a server the status is a failure" $? 1
has "... with a sentence" "$(cat "$tmp/out")" "no server runs on $socket"
[ -n "$demo" ] || { echo "skip the rest needs the demo model"; exit $status; }
begin "$demo" --queue 3
has "a server says what it serves" "$(cat "$tmp/status")" "32768 tokens of context; "
is "its socket is its user's alone" "$(stat -c %a "$socket")" 600
is "... and its folder" "$(stat -c %a "$tmp/run/q35chat")" 700
"$q" serve --model "$demo" > "$tmp/out" 2>&1
is "a second one is refused" $? 1
has "... with a sentence" "$(cat "$tmp/out")" "a chat or a server runs on $socket already"
has "the model has a name" "$(asks get /v1/models)" '"id": "demo"'
has "it is well" "$(asks get /health)" '"status": "ok"'
is "a stream is the whole answer in pieces" "$(asks same)" same
is "stop strings and limits end an answer" "$(asks stops)" stopped
is "what cannot be had is refused with a sentence" "$(asks refusals)" refused
is "tools are called, results taken" "$(asks tools)" called
is "an answer that comes back with its calls is the one that was sampled" "$(asks recalled)" recalled
is "Anthropic's form has the same answers, whole and streamed" "$(asks messages)" "like Anthropic's"
is "prompts of text or tokens are continued, texts become tokens and back" "$(asks plain)" "the same"
is "clients go away" "$(asks leaves 5)" left
waits_for running 0
is "... and their answers end" "$(figure running) $(figure waiting)" "0 0"
left=$(figure requests_left_total)
[ "$left" -ge 5 ] 2> /dev/null && ok "... which is counted" || bad "... which is counted" "found '$left'"
is "who left before a text comes back with one more message" "$(asks comes_back)" "not read again"
set -- $(asks crowd 20)
is "of a crowd everybody is told" "$(($1 + $2))" 20
[ "$1" -ge 3 ] 2> /dev/null && ok "... who fits is answered" || bad "... who fits is answered" "found $1"
is "no stream is silent" "$(asks silence 12000)" "never silent"
waits_for running 0
is "half, huge and slow requests hold nobody up" "$(asks hostile)" "held out"

# The same answers as the engine in this process gives.
for question in "What is the capital of France?" "What is 12*12? Use the calculator."; do
    for where in "--model $demo" "--endpoint unix:$socket"; do
        "$q" $where --no-stdin --temperature 0 --tools all --json "$question" > "$tmp/out" 2> "$tmp/err"
        [ "$where" = "--model $demo" ] && alone=$(sed 's/"finish".*//' "$tmp/out") || there=$(sed 's/"finish".*//' "$tmp/out")
    done
    has "'$question' is answered" "$alone" '"answer":"'
    lacks "... in one piece" "$alone" 'calculator\n'
    is "... over the socket in the same words" "$there" "$alone"
done
"$q" serve stop
is "it is stopped" $? 0
flock -n "$socket.lock" true
is "... and has gone: the next one may begin" $? 0
wait $server
is "... and says that all is well" $? 0
[ ! -e "$socket" ] && ok "... and leaves no socket" || bad "... and leaves no socket" "$socket"

begin "$demo" --keep 1
kill -9 $server
wait $server 2> /dev/null
begin "$demo"
has "a killed server's socket is taken over" "$(cat "$tmp/status")" "tokens of context"
timeout $patience "$q" --endpoint "unix:$socket" --no-stdin hello > "$tmp/out" 2> "$tmp/err" &
job=$!
kill -TERM $server
wait $server
is "SIGTERM ends it" $? 0
wait $job
server=
timeout $patience "$q" --endpoint "unix:$socket" --no-stdin hello > "$tmp/out" 2> "$tmp/err"
is "nobody there is a failure" $? 3
has "... with a sentence" "$(cat "$tmp/err")" "there is no socket $socket: "
exit $status
