#!/bin/sh
# Missing resources give one sentence and a status: memory, files, a stack of normal size, files that do not respond.
. tests/pty/common.inc
trap 'rm -rf "$tmp"' EXIT
ulimit -c 0
cd "$tmp" || exit 1
under() { (ulimit "$1" "$2" && shift 2 && timeout $patience "$q" --model "$small" --no-stdin --no-think -n 2 "$@" hello) > out 2> err; }

if [ -z "$SAN" ]; then              # sanitizers want terabytes of addresses
    : > told
    for kb in $(seq 16000 4000 80000); do
        (ulimit -v $kb && "$q" --version > out 2>&1) || continue        # not even its libraries find room
        under -v $kb
        found=$?
        [ $found -le 1 ] || [ $found -eq 3 ] || bad "with $kb KiB of addresses it ends in order" "status $found: $(cat err)"
        cat err >> told
    done
    has "without memory it says so" "$(cat told)" "q35chat: no memory is left"
    is "... blaming neither itself nor a file" "$(grep 'bug:\|JSON' told)" ""
    under -n 4
    is "without files to open it ends with status 3" $? 3
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
is "a tokenizer that is a FIFO is refused" $? 3
has "... with a sentence" "$(cat err)" "tokenizer.json is not a regular file"
echo 'max_tokens = 3' > fifo &
timeout $patience "$q" --model "$small" --config fifo --print-config > out 2> err
has "a config file may be a FIFO, as <(command) is" "$(cat out)" "max_tokens = 3"
printf 'nosuch = 1\nmax_tokens = 4\n' > odd.conf
timeout $patience "$q" --config odd.conf --print-config > out 2> err
is "an unknown key in the file that --config names is an error" $? 2
is "... with its line" "$(cat err)" "q35chat: odd.conf:1: unknown option nosuch"

# A checkpoint that somebody changes while it is used: one sentence, in every mode.
begun() {       # a checkpoint of our own, whose files can be cut
    rm -rf changed
    cp -rL "$small" changed
}
cut_short() { for f in changed/*.safetensors; do : > "$f"; done; }
sentence="a model file was changed while it was in use: "
begun
timeout $patience "$q" --model changed --no-stdin $endless hello > out 2> err &
job=$!
for i in $(seq $((10 * patience))); do [ -s out ] && break; sleep 0.1; done
cut_short
wait $job
is "in a pipe a file that was cut ends it" $? 1
has "... with its name" "$(cat err)" "$sentence"
. "$root/tests/pty/terminal.inc"
begun
model=$tmp/changed
begin --no-think
seen "line mode is there" "> "
type 'hello\r'
seen "... and answers" " ctx "
cut_short
type 'more\r'
seen "in line mode a file that was cut ends it" "$sentence"
seen "... in order" "status 1"
end
begun
[ -n "$demo" ] || exit $status
. "$root/tests/pty/wire.inc"
"$wire" -t $patience 80x24 "$q" --model changed --no-think --temperature 0 --max-tokens 4 << END || status=1
see the screen is there: ready
type hello\\r
sh ... and answers: eval "\$answered 1"
sh a checkpoint is cut: for f in changed/*.safetensors; do : > "\$f"; done
type more\\r
see on the screen a file that was cut ends it: $sentence
end ... in order, with the terminal given back: 1
END
exit $status
