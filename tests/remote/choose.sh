#!/bin/sh
# A server with several models: a pipe is told their names, line mode asks by numbers, the full screen has a list; and nothing that was typed is lost.
. tests/pty/common.inc
. tests/pty/terminal.inc
unset SSH_CONNECTION TMUX COLORTERM ACCESSIBLE LINES COLUMNS
. tests/remote/replay.inc
url=$replay
last() { tail -n 1 "$tmp/requests"; }

# A pipe: there is nobody to ask.
pipe() { out=$(timeout $patience "$q" --endpoint "$url/sglang/$1" --no-stdin hello 2> "$tmp/err"); found="$? $out $(cat "$tmp/err")"; }
pipe embed
has "one for embeddings is none to choose from" "$found" "0 42 is it."
has "... the other one answers" "$(last)" '"model": "tiny"'
pipe two
is "a pipe is told the names" "$found" "3  q35chat: the server has 2 models; --model names one of them: tiny, other"
pipe empty
is "... and that there is none" "$found" "3  q35chat: the server lists no model; --model names the one that it has"

# Line mode.
keep=--no-save
line() {        # WAY OPTIONS...: as begin(), with a server
    way=$1
    shift
    : > "$screen"
    at=1
    script -qefc "stty cols 80 rows 24 $modes; exec $q --line $keep --tools none --endpoint $url/sglang/$way $*" \
        "$screen" < "$keys" > /dev/null 2>&1 &
    job=$!
    exec 3> "$keys"
}
leave() { type '\004'; end; }
line two
seen "line mode lists the models" "the server has 2 models:"
seen "... with their numbers" "2  other"
seen "... and asks" "which model? [1-2] "
type '2\r'
seen "a number chooses" "answers come from other now"
type 'hello\r'
seen "... and it answers" "42 is it."
has "... indeed" "$(last)" '"model": "other"'
type '/model tiny\r'
seen "/model changes to another one" "answers come from tiny now"
type '/model third\r'
seen "... one that is not there is told with those that are" "the server has no model third; it has tiny, other"
seen "... and the one before stays" "answers come from tiny now"
type 'more\r'
seen "... and answers" "42 is it."
has "... indeed" "$(last)" '"model": "tiny"'
type '/model\r'
seen "/model lists them again" "*  1  tiny"
seen "... and asks" "which model? [1-2] "
type '\003'
seen "... Ctrl-C changes nothing" "> "
type 'still\r'
seen "... the same one answers" "42 is it."
has "... indeed" "$(last)" '"model": "tiny"'
leave

line two
seen "it asks" "which model? [1-2] "
type 'hello there\r'
seen "what names none chooses none" "no such entry: type a number or a name"
type 'other\r'
seen "... a name does" "answers come from other now"
type '\r'
seen "... and what was typed is back, to be sent" "42 is it."
has "... whole" "$(last)" '"content": "hello there"'
leave

rm -f "$tmp/go"
line late
seen "before the names are known there is a prompt" "> "
type 'half a'
seen "... which takes text" "half a"
touch "$tmp/go"
seen "who is typing is not asked" "the server has 2 models; which one is meant is asked with the message"
type ' message\r'
seen "... but with the message" "which model? [1-2] "
type '\003'
seen "... which comes back without a choice" "the message is taken back"
type 'another message\r'
seen "the next one asks again" "which model? [1-2] "
type '1\r'
seen "... and is sent with the choice" "42 is it."
has "... whole" "$(last)" '"content": "another message"'
leave

# A conversation that is kept: its file is there with the first message, and names the model once there is one.
keep=--save=$tmp/kept.jsonl
rm -f "$tmp/go"
line late
seen "what is typed before the names are known" "> "
type 'kept words\r'
for i in $(seq $((10 * patience))); do grep -qs 'kept words' "$tmp/kept.jsonl" && break; sleep 0.1; done
is "... is in the file, which names no model yet" \
    "$(head -n 1 "$tmp/kept.jsonl" | grep -c "\"model\":\"$url/sglang/late\"") $(grep -c 'kept words' "$tmp/kept.jsonl")" "1 1"
created=$(sed -n 's/.*\("created":"[^"]*"\).*/\1/p;q' "$tmp/kept.jsonl")
touch "$tmp/go"
seen "... it asks for one" "which model? [1-2] "
type '2\r'
seen "... and is answered" "42 is it."
leave
is "the file names the model that was chosen" \
    "$(head -n 1 "$tmp/kept.jsonl" | grep "\"model\":\"$url/sglang/late other\"" | grep -c "$created")" 1
is "... and all that was said" "$(sed 1d "$tmp/kept.jsonl" | grep -c '"role":"\(user\|assistant\)"')" 2
keep=--no-save

printf 'a\nb\n' > "$tmp/list"
line listed
seen "a list may change" "which model? [1-2] "
printf 'a\nc\n' > "$tmp/list"
type 'b\r'
seen "... what went is told" "the server has no model b; it has a, c"
seen "... and asked for again" "which model? [1-2] "
type 'c\r'
seen "... among those that there are" "answers come from c now"
leave

modes=-echo
line two --accessible
seen "for a reader of screens it asks in words" "Which model, 1 to 2: "
type 'hi\n'
seen "... what names none is not lost" "no such entry: type a number or a name"
type '2\n'
seen "... and is told" "it was: hi"
seen "... after the choice" "answers come from other now"
leave

# The full screen.
export TERM=xterm-256color tmp
window() { way=$1; shift; "$BUILD/tests/pty/wire" -t $patience 80x24 "$q" --no-save --tools none --endpoint "$url/sglang/$way" "$@" || status=1; }
rm -f "$tmp/go"
window two <<'E'
see the models are listed: > tiny
see ... with their keys: Enter chooses
type \e[B
see Down goes to the next one: > other
type \r
see Enter chooses it: answers come from other now
type hello\r
see ... and it answers: 42 is it.
type /model\r
see /model lists them again: >* other
type tin
see ... typing narrows: which model: tin
type \r
see ... and another one is chosen: answers come from tiny now
type more\r
sh ... which answers: tail -n 1 $tmp/requests | grep -q '"model": "tiny".*"content": "more"'
type /quit\r
end it ends: 0
E
# With the mouse: a click goes to a row, one more takes it, and what is no row takes nothing.
window two --mouse <<'E'
see the mouse finds the list: > tiny
type \e[<0;3;21M\e[<0;3;21m
see ... a click goes to a model: > other
type \e[<0;3;19M\e[<0;3;19m\e[<0;3;22M\e[<0;3;22m\e[<64;3;20M
see ... title and help are none; the wheel goes up: > tiny
type \e[<65;3;20M
see ... and down: > other
type \e[<0;3;20M\e[<0;3;20m
see ... a click on another one only goes there: > tiny
type \e[<0;3;21M\e[<0;3;21m\e[<0;3;21M\e[<0;3;21m
see ... one on the chosen one takes it: answers come from other now
type hello\r
see ... and it answers: 42 is it.
type /quit\r
end it ends: 0
E
has "... indeed" "$(last)" '"model": "other"'
window two <<'E'
see the list is there: which model?
type \e
see Esc leaves it open: a message asks again
type hello\r
see a message asks again: Enter chooses
type \003
gone ... Ctrl-C takes it back: Enter chooses
see ... into the draft: hello
type \r
see it is sent once more: Enter chooses
type \r
see ... and answered: 42 is it.
type /quit\r
end it ends: 0
E
window late <<'E'
see the input is there before the names: loading
type half a
see ... and takes text: half a
sh the server lists its models: touch $tmp/go
see who is writing is not disturbed: asked with the message
type \040message\r
see ... the message asks: Enter chooses
type \r
see ... and is answered: 42 is it.
sh ... whole: tail -n 1 $tmp/requests | grep -q '"content": "half a message"'
type /quit\r
end it ends: 0
E
printf 'a\nb\n' > "$tmp/list"
window listed <<'E'
see a list may change: which model?
sh the server has others now: printf 'a\nc\n' > $tmp/list
type b\r
see what went is told: has no model b
see ... and the list is there: Enter chooses
type c\r
see ... with those that there are: answers come from c now
type /quit\r
end it ends: 0
E
exit $status
