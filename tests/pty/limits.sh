#!/bin/sh
# What a system can withhold gets one sentence and status 1: memory, files, a stack of the usual size, files that do not answer.
. tests/pty/common.inc
trap 'rm -rf "$tmp"' EXIT
ulimit -c 0
cd "$tmp" || exit 1
under() { (ulimit "$1" "$2" && shift 2 && timeout $patience "$q" --model "$small" --no-stdin --no-think -n 2 "$@" hello) > out 2> err; }

if [ -z "$SAN" ]; then              # sanitizers want terabytes of addresses
    for kb in 18000 22000 26000 30000 34000 38000 42000; do
        under -v $kb
        found=$?
        [ $found -le 1 ] || bad "with $kb KiB of addresses it ends in order" "status $found: $(cat err)"
        cat err
    done > told
    has "without memory it says so" "$(cat told)" "q35chat: no memory is left"
    is "... blaming neither itself nor a file" "$(grep 'bug:\|JSON' told)" ""
    under -n 4
    is "without files to open it ends with status 1" $? 1
    has "... and says so" "$(cat err)" "Too many open files"
    is "... blaming nobody" "$(grep -c 'bug:' err)" 0
    under -s 64
    is "a small stack is enough" $? 0
    echo hello | (ulimit -s 64 && timeout $patience "$q" --model "$small" --no-think -n 2) > out 2> err
    is "... to read stdin, too" $? 0
fi

mkfifo fifo
timeout $patience "$q" --model "$small" --resume "$tmp/fifo" hello < /dev/null > out 2> err
is "a conversation that is a FIFO is refused" $? 1
has "... with a sentence" "$(cat err)" "fifo is not a regular file"
timeout $patience "$q" session show "$tmp/fifo" > out 2> err
is "... nor is it shown" $? 1
mkdir blocked
for f in "$small"/*; do ln -s "$f" blocked/; done
rm blocked/tokenizer.json
mkfifo blocked/tokenizer.json
timeout $patience "$q" --model blocked --no-stdin hello > out 2> err
is "a tokenizer that is a FIFO is refused" $? 1
has "... with a sentence" "$(cat err)" "tokenizer.json is not a regular file"
echo 'max_tokens = 3' > fifo &
timeout $patience "$q" --model "$small" --config fifo --print-config > out 2> err
has "a config file may be a FIFO, as <(command) is" "$(cat out)" "max_tokens = 3"
printf 'nosuch = 1\nmax_tokens = 4\n' > config
timeout $patience "$q" --config config --print-config > out 2> err
is "an option that nobody knows is a warning" $? 0
has "... with its line" "$(cat err)" "config:1: there is no option nosuch; ignored"
exit $status
