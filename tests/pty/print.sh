#!/bin/sh
# One answer on a terminal: formatted, never rewritten; and the ways to get the text of the model unchanged.
. tests/pty/common.inc
. tests/pty/wire.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

code='Write a C function that adds two numbers.'
once() {        # COLSxROWS NAME OPTIONS...: one answer, what was sent goes to `sent`
    size=$1 name=$2
    shift 2
    "$wire" -t $patience -l sent "$size" "$q" --model "$demo" --temperature 0 --no-think "$@" << END || status=1
end $name: 0
END
    # a slow machine tells how far the prompt is read
    sed 's/\rreading [^\r]*//g; s/\r *\r//g' sent | tr -d '\r' | sed '/^reading [0-9]* of [0-9]* tokens/d' > lines
}
plain() { sed 's/\x1b\[[0-9;]*m//g' lines; }

once 80x24 "an answer ends on a terminal" "$code"
"$q" --model "$demo" --temperature 0 --no-think "$code" < /dev/null > piped
is "code stands there as it was written" "$(plain)" "$(cat piped)"
has "... in colours" "$(cat lines)" "$(printf '\033[35mint\033[0m')"
is "nothing but looks is sent" "$(plain | tr -d '[:print:]\n\t' | wc -c | tr -d ' ')" 0

once 30x24 "a story ends on a narrow one" -n 120 "Tell me a story"
"$q" --model "$demo" --temperature 0 --no-think -n 120 "Tell me a story" < /dev/null > piped 2> /dev/null
squeeze() { sed 's/^q35chat: .*//' | tr -s ' \n' '  '; }
is "its words are those of a pipe" "$(plain | squeeze)" "$(squeeze < piped)"
is "no line is wider than the terminal" "$(plain | grep -v '^q35chat:' | awk 'length > 29' | wc -l | tr -d ' ')" 0
is "... and it breaks at words" "$(plain | grep -v '^q35chat:' | awk 'length > 20' | wc -l | tr -d ' ' | sed 's/^[1-9][0-9]*$/some/')" some
once 80x24 "... and with --width" --width 30 -n 120 "Tell me a story"
is "running text keeps to --width" "$(plain | grep -v '^q35chat:' | awk 'length > 30' | wc -l | tr -d ' ')" 0

left() { sed -n '/\x1b\[?1049l/,$p' sent | sed 's/.*\x1b\[?1049l//; s/\x1b\[[0-9;?]*[a-z]//g; /^resume with/d' | tr -d '\r'; }
leave() {       # OPTIONS...: what the full screen leaves on the usual one
    "$wire" -t $patience -l sent 30x24 "$q" --model "$demo" --temperature 0 --no-think -n 120 "$@" -i "Tell me a story" << END || status=1
see the full screen answers: Once upon
see ... to its end:  ready
type \\004
end ... and is left: 0
END
}
leave
is "its words are left on the usual screen" "$(left | squeeze)" "$( (echo "> Tell me a story"; cat piped; echo) | squeeze)"
is "... in lines that break at words" "$(left | awk 'length > 29' | wc -l | tr -d ' ')" 0
leave --private
is "a private chat leaves nothing there" "$(left)" ""

once 30x24 "--raw ends" --raw -n 120 "Tell me a story"
is "--raw prints what the model wrote" "$(grep -v '^q35chat:' lines)" "$(cat piped)"
for set in TERM=dumb ACCESSIBLE=1; do
    export "$set"
    once 30x24 "$set ends" -n 120 "Tell me a story"
    is "... and prints what the model wrote" "$(grep -v '^q35chat:' lines)" "$(cat piped)"
    unset ACCESSIBLE
    export TERM=xterm-256color
done
export NO_COLOR=1
once 80x24 "NO_COLOR ends" "$code"
lacks "... and has no colour" "$(cat lines)" "$(printf '\033[3')"
unset NO_COLOR

# Who named no model hears that the demo model answers, on a terminal and nowhere else.
notice='This is a small demo model. For a real one, run: q35chat model get'
alone() { "$wire" -t $patience -l sent 80x24 "$@" << END || status=1
end an answer of the model that is there by itself: 0
END
}
alone "$q" --temperature 0 --no-think Hello
is "the demo model says what it is" "$(tr -d '\r' < sent | grep -c "^q35chat: $notice\$")" 1
alone "$q" --model "$demo" --temperature 0 --no-think Hello
lacks "... unless it was asked for" "$(cat sent)" "demo model"
alone sh -c '"$1" --temperature 0 --no-think Hello > piped' sh "$q"
is "... or the answer goes elsewhere" "$(cat sent; grep -c 'demo model' piped)" 0
"$q" --temperature 0 --no-think Hello < /dev/null > piped 2> err
is "a pipe has the answer and nothing else" "$(grep -c 'demo model' piped err)" "piped:0
err:0"

# Lines come while the answer is made, and what there is of it is kept by Ctrl-C.
"$wire" -t $patience -l sent 40x24 "$q" --model "$demo" $endless "Tell me a story" << END || status=1
sh the answer comes while it is made: test \$(wc -l < sent) -gt 4
signal INT
end SIGINT ends it as it ends a pipe: 130
END
exit $status
