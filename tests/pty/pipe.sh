#!/bin/sh
# Pipe mode of the real program: what goes to stdout and stderr, and the exit status.
. tests/pty/common.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

ask() { timeout $patience "$q" --model "$small" --temperature 0 "$@" > out 2> err; rc=$?; }

printf 'Hello' > in
ask --no-think -n 24 < in
is "an answer ends with status 0" "$rc" 0
is "the answer ends with exactly one newline" "$(tail -c 1 out | od -An -tx1) $(tail -c 2 out | head -c 1 | od -An -tx1 | grep -c ' 0a')" " 0a 0"
is "nothing is said on stderr" "$(cat err)" ""
cp out first
ask --no-think -n 24 Hello < /dev/null
is "an argument and stdin give the same answer" "$(cmp out first && echo same)" same
ask --no-think -n 24 --no-stdin Hello < /dev/zero
is "--no-stdin does not read it" "$(cmp out first && echo same)" same
printf 'b' > in
ask --no-think -n 24 a < in
cp out both
ask --no-think -n 24 "a

b" < /dev/null
is "arguments come first, an empty line, then stdin" "$(cmp out both && echo same)" same

printf 'Hello' > in
ask --no-think -n 24 --json < in
is "--json ends with status 0" "$rc" 0
is "--json is one line" "$(wc -l < out | tr -d ' ')" 1
for key in answer reasoning tool_calls finish tokens prompt cached generated tok_per_s acceptance acceptance_by_position steps model seed; do
    has "--json has $key" "$(cat out)" "\"$key\":"
done
printf 'Hello' > in
ask --no-think -n 24 --jsonl < in
is "--jsonl ends with end" "$(tail -n 1 out | grep -c '^{"type":"end"')" 1
is "--jsonl has an object in every line" "$(grep -vc '^{"type":.*}$' out)" 0

ask --reasoning only -n 24 Hello < /dev/null
cp out reasoning
ask --reasoning show -n 24 Hello < /dev/null
is "--reasoning shows what is otherwise hidden" "$(cmp out reasoning && [ -s out ] && echo same)" same
ask -n 24 Hello < /dev/null
is "reasoning is hidden" "$(cat out)" ""

: > in
ask < in
is "empty stdin is a usage error" "$rc" 2
has "... with a sentence" "$(cat err)" "stdin is empty"
ask --no-stdin
is "no prompt is a usage error" "$rc" 2
ask --no-such-option x < /dev/null
is "an unknown option is a usage error" "$rc" 2
ask --temperature hot x < /dev/null
is "a bad value is a usage error" "$rc" 2
timeout $patience "$q" --model "$small" <&- 2> err
is "a closed stdin is an empty one" "$?" 2
ask --no-think -n 24 Hello <&-
is "... which does no harm to a prompt" "$(cmp out first && echo same)" same
timeout $patience "$q" --model "$small" --no-think -n 24 Hello < /dev/null >&- 2> err
is "a closed stdout fails" "$?" 1
has "... with a sentence" "$(cat err)" "cannot write the answer"
printf 'a\000b' > in
ask < in
is "binary stdin is a usage error" "$rc" 2
head -c 3000000 /dev/zero | tr '\0' a > in
ask < in
is "a prompt longer than the context fails" "$rc" 1
has "... and names both numbers" "$(cat err)" "tokens, the context holds"
timeout $patience "$q" --model "$tmp/nowhere" x < /dev/null > out 2> err
is "a missing model fails" "$?" 1
has "... and is named" "$(cat err)" "$tmp/nowhere"
is "... and stdout is empty" "$(cat out)" ""
timeout $patience "$q" --model "$small" --no-think -n 20 x < /dev/null > /dev/full 2> err
is "a full disk fails" "$?" 1

{ timeout $patience "$q" --model "$small" $endless x < /dev/null 2> err; echo $? > rc; } | head -c 1 > /dev/null
is "a closed pipe ends it by SIGPIPE" "$(cat rc)" 141
is "... without a word" "$(cat err)" ""

# A shell starts background jobs with SIGINT ignored; the program listens all the same.
"$q" --model "$small" $endless --jsonl Hello < /dev/null > out 2> err &
pid=$!
for i in $(seq $((10 * patience))); do grep -q '"type":"text"' out && break; sleep 0.1; done
kill -INT $pid
wait $pid
is "SIGINT ends with 130" "$?" 130
has "... after what was said so far" "$(tail -n 1 out)" '"finish":"interrupted"'
"$q" --model "$small" $endless Hello < /dev/null > out 2> err &
pid=$!
for i in $(seq $((10 * patience))); do [ -s out ] && break; sleep 0.1; done
kill -TERM $pid
wait $pid
is "SIGTERM ends with 143" "$?" 143
is "pipe mode writes no files" "$(ls "$tmp/state" 2> /dev/null)" ""

mkdir -p config/q35chat
printf 'max_tokens = 24\nthink = off\n' > config/q35chat/q35chat.conf
ask Hello < /dev/null
is "the config file is read" "$(cmp out first && echo same)" same
printf 'max_token = 24\n' > config/q35chat/q35chat.conf
ask Hello < /dev/null
is "an unknown key is a warning" "$rc" 0
has "... with file, line and the key meant" "$(cat err)" "q35chat.conf:1: there is no option max_token (did you mean max_tokens?)"
printf 'max_tokens = -1\n' > config/q35chat/q35chat.conf
ask Hello < /dev/null
is "a value out of range is a usage error" "$rc" 2
has "... with file, line and range" "$(cat err)" "q35chat.conf:1: max_tokens is -1, expected 0 to "
timeout $patience "$q" --help > out
is "--help works with a broken config file" "$?" 0
rm config/q35chat/q35chat.conf

if [ -z "$demo" ]; then
    echo "skip the demo model answers: assets/demo is not there"
    exit $status
fi
sum=$(echo 'What is 17 + 25?' | timeout $patience "$q" --model "$demo" --temperature 0 2> err)
has "the demo model adds" "$sum" 42
call=$(timeout $patience "$q" --model "$demo" --temperature 0 --tools clock,calculator --json 'What time is it?' < /dev/null 2> err)
has "the demo model calls the clock" "$call" '"name":"clock"'
banned=$(timeout $patience "$q" --model "$demo" --temperature 0 --no-think --logit-bias '"4"=-inf' 'What is 17 + 25?' < /dev/null)
is "a banned token does not come" "$banned" "$(printf %s "$banned" | tr -d 4)"
plain=$(timeout $patience "$q" --model "$demo" --seed 4 Hello < /dev/null 2> err)
is "the same seed gives the same answer" "$(timeout $patience "$q" --model "$demo" --seed 4 Hello < /dev/null 2> err)" "$plain"
is "drafting does not change a greedy answer" "$(timeout $patience "$q" --model "$demo" --temperature 0 --draft 0 Hello < /dev/null)" \
    "$(timeout $patience "$q" --model "$demo" --temperature 0 --draft 3 Hello < /dev/null)"
exit $status
