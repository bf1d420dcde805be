#!/bin/sh
# What the full-screen chat shows from its start to its end, at three sizes, compared as text with tests/data/screens.
. tests/pty/common.inc
. tests/pty/wire.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

for size in 80x24 40x12 120x40; do
    forget
    at $size --tools none --no-stats << END
screen $size, the first start: $screens/start-$size.txt
type Tell me a story
see $size, what is typed is shown: > Tell me a story
type \\r
screen $size, an answer: $screens/answer-$size.txt
type \\017
screen $size, Ctrl-O opens the reasoning: $screens/reasoning-$size.txt
type \\017
screen $size, ... and closes it: $screens/answer-$size.txt
type Write a poem\\r
screen $size, a second answer: $screens/second-$size.txt
type /he
screen $size, what completes a command: $screens/complete-$size.txt
type \\025
gone $size, Ctrl-U clears: > /he
type /help\\r
screen $size, the commands: $screens/help-$size.txt
type \\033OP
screen $size, the keys: $screens/keys-$size.txt
type q\\004
end $size, Ctrl-D ends: 0
END
done
exit $status
