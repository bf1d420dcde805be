#!/bin/sh
# Pasted text is always text and is never sent automatically.
. tests/pty/common.inc
. tests/pty/wire.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

paste() { printf '\033[200~%s\033[201~' "$(cat)" | tr '\n' '\r'; }     # as terminals do
seq -f 'line %g of many' 200 | paste > lines
{ head -c 1000000 /dev/zero | tr '\0' m; echo; echo 'the last line'; } | paste > megabyte
printf 'one\003two\004three\032\033[31mfour\033]52;c;AAAA\007five\033[A\022\007' | paste > hostile
user='grep "\"role\":\"user\"" "$sessions"/*.jsonl 2> /dev/null | tail -n 1'
export user

at 80x24 --no-think --tools none --max-tokens 8 << 'END'
see the prompt: ready
send lines
see two hundred lines are one thing in the draft: > [paste 1: 200 lines
sh ... and nothing was sent: ! test -e "$sessions"
type \r
sh Enter sends them as one message: eval "$user" | grep -q 'line 1 of many\\n.*\\nline 200 of many"'
sh ... and an answer comes: eval "$answered 1"
see ... to its end: ready
type \033[20
type 0~split in
type  pie\033[
type 201~ces\r
sh marks that come in pieces are marks: eval "$user" | grep -q '"content":"split in pieces"'
sh ... and an answer comes again: eval "$answered 2"
see ... to its end: ready
type \033[200~no end
see without an end mark the paste ends by itself: > no end
type  of it\r
sh ... and typing goes on: eval "$user" | grep -q '"content":"no end of it"'
sh ... with another answer: eval "$answered 3"
see ... to its end: ready
send hostile
see control characters in a paste are text: five
type \r
sh ... and go along, or are left out: eval "$user" | grep -q 'one.*two.*three.*four.*five'
sh ... and this is answered: eval "$answered 4"
see ... to its end: ready
send megabyte
see a megabyte is asked for: i insert it
insist ... and inserted: i i insert it
see ... as one thing, too: 2 lines, 1
type is here
see ... with keys behind it: is here
type \003
gone Ctrl-C takes it away: is here
type \033[A
see ... and Up brings it back: is here
resize 40x12
resize 80x24
type \003
gone ... to go again: is here
type one\\\r
see a backslash before Enter begins a line: > one
type two\r
sh a backslash before Enter goes on in the next line: eval "$user" | grep -q '"content":"one\\ntwo"'
sh ... of one message: eval "$answered 5"
see ... to its end: ready
type \004
end the end: 0
END
is "each was one message" "$(cat "$sessions"/*.jsonl | grep -c '"role":"user"')" 5

# A paste without marks is recognised by its speed, also where the terminal marks others (tmux paste-buffer without -p).
for TERM in vt100 xterm-256color; do
forget
at 80x24 --no-think --tools none --max-tokens 8 << 'END'
see the prompt of a terminal without marks: ready
type a first line\ra second line\ra third line
see lines that come at once are a draft: a third line
sh ... and nothing was sent: ! test -e "$sessions"
type \r
sh Enter sends them as one: eval "$user" | grep -q '"content":"a first line\\na second line\\na third line"'
sh ... and it is answered: eval "$answered 1"
see ... to its end: ready
type \004
end ... and ends: 0
END
done
exit $status
