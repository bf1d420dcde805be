#!/bin/sh
# A streaming answer: bytes sent to the terminal per token; keys are handled meanwhile.
. tests/pty/common.inc
. tests/pty/wire.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

at 80x24 $endless --draft 0 --max-tokens 400 << END
see the prompt: ready
type Tell me a story\\r
see an answer streams: Once upon
mark
sh ... to its end: eval "\$answered 1"
see ... which is shown: cut off
bytes a token costs little: 60 390
type \\004
end the end: 0
END

at 80x24 $endless << END
see the prompt of an endless one: ready
type Tell me a story\\r
see an endless answer streams: Once upon
type a
see a key is seen meanwhile: > a
type bc
see ... and the next: > abc
type \\177
see ... and one that deletes: > ab\\n
see ... while it goes on: answering
type \\033[D\\033[DX
see ... and one that moves: > Xab
type \\003
see ... until it is stopped: ready
see ... with the draft: > Xab
type \\005\\025\\004
end the end of the endless one: 0
END
exit $status
