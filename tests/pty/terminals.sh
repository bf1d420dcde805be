#!/bin/sh
# Other terminals: other types, without colours, remote, slow, or not reading.
. tests/pty/common.inc
. tests/pty/wire.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

types="xterm-256color xterm screen-256color tmux-256color linux vt100 vt220 rxvt-unicode nosuch"
[ -z "$SAN" ] || types="xterm-256color linux vt100"     # slow; test_term draws on all of them
for type in $types; do
    TERM=$type
    forget
    at 80x24 --tools none << END
see TERM=$type, a full screen: ready
type Tell me a story\\r
sh TERM=$type, an answer: eval "\$answered 1"
see TERM=$type, ... is shown: said thank you. The end.
see TERM=$type, ... to its end: ready
type \\004
end TERM=$type, the end: 0
END
done
for type in dumb ''; do
    TERM=$type
    forget
    at 80x24 --tools none << END
see TERM=$type, line mode: line mode: TERM is
type Tell me a story\\r
see TERM=$type, an answer: said thank you. The end.
see TERM=$type, ... to its end: ctx
type /quit\\r
end TERM=$type, the end: 0
END
done
TERM=xterm-256color

forget
NO_COLOR=1
export NO_COLOR
at 80x24 << END
see the prompt without colours: ready
type What is 12 + 30?\\r
see an answer without colours: = 42.
type /help\\r
see help without colours: lists the commands
type \\033OP
see keys without colours: Everywhere
type q
gone ... and back: Writing
colors NO_COLOR is kept: 0
signal TERM
end the end without colours: 143
END
at 80x24 --line << END
see line by line without colours: >
type What is 12 + 30?\\r
see ... an answer: = 42.
see ... to its end: ctx
colors NO_COLOR is kept line by line: 0
type /quit\\r
end ... to the end: 0
END
at 80x24 --reasoning show 'What is 12 + 30?' << END
see one answer without colours: = 42.
colors NO_COLOR is kept for one answer: 0
end ... to the end: 0
END
unset NO_COLOR
at 80x24 << END
see the prompt with colours: ready
signal TERM
end the end with colours: 143
END

# ISO Latin and no locale: the terminal still uses UTF-8.
forget
LC_ALL=xx_XX.ISO-8859-1 LANG='' at 80x24 --tools none << END
see an unknown locale: ready
type Gr\\303\\274\\303\\237e\\r
see ... takes any letters: Grüße
sh ... and answers: eval "\$answered 1"
see ... to its end: ready
type \\004
end ... and ends: 0
END

# 9600 baud, as over a bad line.
forget
export SSH_CONNECTION='192.0.2.1 1 192.0.2.2 22'
at 80x24 --tools none << END
baud 9600
see over a slow line, the prompt: ready
type Tell me a story\\r
see over a slow line, a story: said thank you. The end.
type this is typed
see over a slow line, typing: > this is typed
type \\025Write a poem\\r
sh over a slow line, a second answer: eval "\$answered 2"
see over a slow line, a poem: terminal warm.
see over a slow line, ... to its end: F1 keys
keep
type \\014
same over a slow line, the screen is right
baud 0
type \\004
end over a slow line, the end: 0
END
forget
at 80x24 $endless << END
see over a slow line again, the prompt: ready
type Tell me a story\\r
see over a slow line, an endless answer: Once upon a time
baud 9600
type abc
see over a slow line, a key during the answer: > abc
type \\003
see over a slow line, it stops: F1 keys
baud 0
keep
type \\014
same over a slow line, the screen is right after all
type \\025\\004
end over a slow line, the end of it: 0
END
unset SSH_CONNECTION

# A terminal that reads nothing, as a window whose machine sleeps.
forget
at 80x24 $endless --max-tokens 600 << END
see before it is deaf, the prompt: ready
type Tell me a story\\r
see before it is deaf, an answer: Once upon a time
freeze
storm 3 40
resize 80x24
sh a deaf terminal does not stop the answer: eval "\$answered 1"
thaw
see ... which is there when it listens again: cut off: max_tokens
type \\025/set max_tokens 0\\r
see ... ready for more: max_tokens = 0
type Hello\\r
see it goes on: answering
freeze
storm 5 40
resize 80x24
type abcdefgh
signal TERM
end a deaf terminal does not keep the program alive: 143
sh ... and the answer is kept: tail -n 1 "\$sessions"/*.jsonl | grep -q '"stopped":true'
END

# ... with a wall of text, of which a frame does not fit into what a pty keeps.
forget
mkdir -p "$sessions"
wall=$(head -c 11000 /dev/zero | tr '\0' w | sed 's/wwwwwww/abc de /g')
printf '{"q35chat":1,"model":"m"}\n{"role":"user","content":"Hello"}\n{"role":"assistant","content":"%s"}\n' "$wall" > "$sessions/wall.jsonl"
at 200x60 --resume wall << END
see a wall of text: ready
freeze
storm 5 40
resize 200x60
type /rename Heard\\r
sh while nobody listens, it hears: grep -q Heard "\$sessions/wall.jsonl"
thaw
see ... which is seen later: Heard
keep
type \\014
same ... all of it
freeze
storm 6 40
resize 200x60
signal TERM
end a wall of text does not keep the program alive: 143
END
exit $status
