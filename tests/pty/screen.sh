#!/bin/sh
# What the full-screen chat shows from its start to its end, at three sizes, compared as text with tests/data/screens.
. tests/pty/common.inc
. tests/pty/wire.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

for size in 80x24 40x12 120x40; do
    forget
    at $size --tools none --no-stats << END
see $size, the model is there: ready
screen $size, the first start: $screens/start-$size.txt
type Tell me a story
see $size, what is typed is shown: > Tell me a story
type \\r
sh $size, a story is told: eval "\$answered 1"
see $size, ... to its end: ready
screen $size, an answer: $screens/answer-$size.txt
type \\017
see $size, Ctrl-O opens the reasoning: The user wants
screen $size, ... in its place: $screens/reasoning-$size.txt
type \\017
gone $size, ... and closes it: The user wants
screen $size, ... as it was: $screens/answer-$size.txt
type Write a poem\\r
sh $size, a poem is written: eval "\$answered 2"
see $size, ... to its end: ready
screen $size, a second answer: $screens/second-$size.txt
type /he
see $size, what completes a command is listed: /help [COMMAND]
screen $size, ... over the answer: $screens/complete-$size.txt
type \\025
gone $size, Ctrl-U clears: > /he
type /help\\r
see $size, the commands are listed: lists 
screen $size, ... as a page: $screens/help-$size.txt
type \\033OP
see $size, the keys are listed: continues a
screen $size, ... as a page: $screens/keys-$size.txt
type q\\004
end $size, Ctrl-D ends: 0
END
done
exit $status
