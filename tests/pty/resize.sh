#!/bin/sh
# The terminal changes its size: while an answer runs, in a storm of sizes, there and back.
. tests/pty/common.inc
. tests/pty/wire.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

at 80x24 --tools none << 'END'
see the prompt: ready
type Tell me a story\r
see an answer: The end.
see ... is complete: ready
type Write a poem\r
see another: keeps your terminal warm.
see ... is complete too: ready
type a draft that is not sent
see a draft: > a draft that is not sent
keep
resize 40x12
see a narrow screen wraps anew: light and found its home. From then on\n
see ... with the draft: > a draft that is not sent
resize 120x40
see a wide screen keeps to the measure: owl pointed to the moon. The fox walked\n
see ... with the draft as well: > a draft that is not sent
resize 80x24
same there and back is the same screen
resize 1x1
resize 80x24
same ... from one cell too
resize 15x3
see too small a screen says so: small
resize 200x60
see a large one shows everything: > Tell me a story
resize 80x24
same ... and back again
storm 7 60
resize 80x24
same ... after a storm of sizes
type \025\004
end the end: 0
END

at 80x24 $endless << 'END'
see the prompt for a storm: ready
type Tell me a story\r
see an answer runs: answering
storm 11 80
resize 80x24
see it still runs after the storm: answering
storm 12 40
resize 80x24
see ... after another: answering
type \003
see ... and can be stopped: ready
keep
type \014
same what is shown is what a fresh drawing shows
type \004
end the end of the storm: 0
END

# Started in a small screen that grows; and as small as can be.
at 20x4 --tools none << 'END'
see the smallest screen has a prompt: \n>\n
type Tell me a joke\r
see ... and an answer: >
resize 80x24
see ... that is there when it grows: Tell me a joke
see ... to its end: ready
type \004
end ... and ends: 0
END
at 19x40 << 'END'
see a smaller one has line mode: line mode
type /quit\r
end ... which ends: 0
END
exit $status
