#!/bin/sh
# One conversation, resumed KILLS times (6) by a program that is killed with -9 at a random moment: of its whole run, of its answer, and of
# saving, in turns.  No answer that was told to its end is lost, and it always starts again.
. tests/pty/common.inc
trap 'rm -rf "$tmp"' EXIT
if [ -z "$demo" ]; then
    echo "skip $0: assets/demo is not there"
    exit 0
fi
cd "$tmp" || exit 1
kills=${KILLS:-6}
ask() { exec "$q" --model "$demo" --no-attach --no-think --temperature 0 -n 16 "$@" < /dev/null; }
ms() { echo $(($(date +%s%N) / 1000000)); }
random() { od -An -N4 -tu4 /dev/urandom | tr -d ' '; }

(ask --save talk "Question 0: hello") > out 2> err
ended() { [ "$(tail -c 1 out | od -An -tx1)" = " 0a" ]; }
until_() { while kill -0 $job 2> /dev/null && ! "$@"; do sleep 0.003; done; }       # or until it is gone
pause() { wait=$(($(random) % ($1 + 1))) && sleep "$((wait / 1000)).$(printf %03d $((wait % 1000)))"; }

# How long the parts of a run take, with a quarter more.
from=$(ms)
ask -r talk "Question 0: how are you?" > out 2> err &
job=$!
until_ test -s out
word=$(ms)
until_ ended
end=$(ms)
wait $job
is "the conversation begins" "$?" 0
long=$((($(ms) - from) * 5 / 4)) answers=$(((end - word) * 5 / 4)) saves=$((($(ms) - end) * 5 / 4))
before=0 answering=0 saving=0 whole=0 lost=0 refused=0
: > told
i=0
while [ $i -lt "$kills" ]; do
    i=$((i + 1))
    : > out
    ask -r talk "Question $i?" > out 2> err &           # the program itself: ask() becomes it
    job=$!
    case $((i % 3)) in
    0) pause $long ;;
    1) until_ test -s out; pause $answers ;;
    2) until_ ended; pause $((saves / 2)) ;;
    esac
    kill -9 $job 2> /dev/null
    wait $job 2> /dev/null
    rc=$?
    case $rc in
    0) whole=$((whole + 1)); printf '%s\n' "$i" >> told ;;
    137)
        if ended; then
            saving=$((saving + 1))
            printf '%s\n' "$i" >> told
        elif [ -s out ]; then
            answering=$((answering + 1))
        else
            before=$((before + 1))
        fi ;;
    *) refused=$((refused + 1)); bad "kill $i" "status $rc: $(cat err)" ;;
    esac
done
# Every question that was answered to the end stands there with an answer behind it.
"$q" session export talk json > all.json 2> err || bad "the conversation is read" "$(cat err)"
tr -d '\n' < all.json | sed 's/"role": *"user"/\n&/g' > turns
while read -r n; do
    grep "Question $n?" turns | grep -q '"role": *"assistant"' ||
        { lost=$((lost + 1)); bad "question $n" "its answer is gone: $(grep "Question $n?" turns)"; }
done < told
is "of $kills runs killed at random no finished answer is lost" "$lost" 0
is "... and none is refused" "$refused" 0
(ask -r talk "The last one?") > out 2> err
is "... and it goes on" "$? $(grep -c 'damaged' err)" "0 0"
echo "# $before killed before the first word, $answering while answering, $saving while saving, $whole not in time"
exit $status
