#!/bin/sh
# Ctrl-C and Esc in every state: open windows close, a running answer stops, drafts are kept, nothing of the user is lost.
. tests/pty/common.inc
. tests/pty/wire.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
for i in $(seq 2500); do echo "$i: the quick brown fox jumps over the lazy dog"; done > long.txt

at 80x24 $endless << 'END'
see the screen is there at once: Ask anything
type Hello\r\003
see Ctrl-C before a word came gives the message back: > Hello
see ... and nothing runs: ready
type \003
see Ctrl-C clears a draft: Up brings it back
never ... off the screen: > Hello
type \033[A
see ... and Up brings it back: > Hello
type \033
type \033
see Esc twice clears it too: Up brings it back
gone ... off the screen as well: > Hello
type \003
see Ctrl-C on an empty draft arms the end: Ctrl-C again to quit
type x
gone ... any key disarms it: again to quit
type \003
see ... so that this one clears: Up brings it back
gone ... and that word goes in time: Up brings it back
type Tell me a story\r
see an answer runs: Once upon a time
type draft
see one types meanwhile: > draft
type \003
see Ctrl-C stops the answer: ready
see ... and leaves the draft: > draft
see ... and what was said: Once upon a time
sh ... and keeps it as stopped: tail -n 1 "$sessions"/*.jsonl | grep -q '"stopped":true'
type \025\r
see Enter on the empty draft goes on with it: answering
type \033
see Esc stops too: ready
type /he
see a list opens: lists the commands
type \003
gone Ctrl-C closes it: lists the commands
see ... and leaves the draft under it: > /he
type \025/hel
see the list opens again: lists the commands
type \033
gone Esc closes it as well: lists the commands
type \025@long.txt say\r
see a file of more than half the context is told first: not sent; press
type \r
see ... and read when it is sent once more: reading
type \003
see Ctrl-C while it reads gives the message back: > @long.txt say
see ... and nothing runs any more: ready
type \025\033v
see view mode:  view  ctx
type \003
gone Ctrl-C leaves it:  view  ctx
type \033
type \033
see Esc twice on an empty draft lists the messages: Tell me a story
type \003\003
see Ctrl-C closes the list, and arms the end: Ctrl-C again to quit
type \003
end twice ends the program: 0
END

export nap=97$$         # a number of our own
mkdir -p "$XDG_CONFIG_HOME/q35chat"
cat > "$XDG_CONFIG_HOME/q35chat/q35chat.conf" << END
[tool weather]
description = Tells the weather of a place.
parameters = {"type": "object", "properties": {"city": {"type": "string",
    "description": "name of the city"}}, "required": ["city"]}
command = sh -c 'echo ran >> ran; sleep $nap'
END
forget
at 80x24 --tools weather << 'END'
see the prompt: ready
type What is the weather in Oslo?\r
see a tool asks: weather
see ... with its answers: y yes
type \r\r\r
sh ... and Enter is none: ! test -e ran
type \003
see Ctrl-C refuses and stops: ready
sh ... so that it did not run: ! test -e ran
type \025What is the weather in Oslo?\r
see it asks again: y yes
insist ... and hears what is typed a moment later: y y yes
sh ... and runs: test -e ran
type \003
see Ctrl-C ends a tool that runs: ready
sh ... and its process: ! cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\0' ' ' | grep -q "[s]leep $nap"
type \025\004
end Ctrl-D ends: 0
END
exit $status
