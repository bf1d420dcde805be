#!/bin/sh
# Calls for attention: a bell and a notification when a tool asks while another window has the focus.
. tests/pty/common.inc
. tests/pty/wire.inc
tm() { TMUX_TMPDIR=$tmp tmux -L bell -f /dev/null "$@"; }
trap 'tm kill-server 2> /dev/null; rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
mkdir -p config/q35chat
cat > config/q35chat/q35chat.conf << 'END'
[tool weather]
description = Tells the weather of a place.
parameters = {"type": "object", "properties": {"city": {"type": "string",
    "description": "name of the city"}}, "required": ["city"]}
command = echo rain
END
ask='What is the weather in Oslo?'
called='777;notify;q35chat;approval wanted: What is the weather in Oslo?'

asks() {        # OPTIONS...: the chat, with a script on standard input; what it sends goes to `sent`
    forget
    "$wire" -t $patience -l sent 80x24 "$q" --model "$demo" --temperature 0 --ctx 4096 --no-think --tools weather "$@" || status=1
}

export TERM_PROGRAM=WezTerm
asks << END
see the prompt: ready
type \\033[O
type $ask\\r
see a tool asks while another window has the focus: weather wants to run
sh ... and the user is called: grep -aq '$called' sent
bells ... by a bell, too: 1
type \\033[I
insist ... who says yes: y weather wants to run
see ... and gets an answer: ready
bells ... which was short, without another bell: 1
type \\025\\004
end ... to the end: 0
END
asks << END
see the prompt in a window with the focus: ready
type \\033[I
type $ask\\r
see a tool asks: weather wants to run
type \\003
see ... and is refused: ready
bells ... without a bell: 0
type \\025\\004
end ... to its end: 0
END
asks --bell never << END
see the prompt with --bell never: ready
type \\033[O
type $ask\\r
see ... a tool asks: weather wants to run
type \\003
see ... and is refused, too: ready
bells ... also without a bell: 0
type \\025\\004
end ... to its own end: 0
END
unset TERM_PROGRAM

# tmux marks the window of a chat that calls; the chat does not know whether somebody looks.
if command -v tmux > /dev/null; then
    forget
    tm new-session -d -x 80 -y 24 "'$q' --model '$demo' --temperature 0 --ctx 4096 --no-think --tools weather"
    for i in $(seq $((10 * patience))); do tm capture-pane -p -t :0 | grep -q '^ ready' && break; sleep 0.1; done
    tm new-window "sh -i"
    tm send-keys -t :0 "$ask" Enter
    for i in $(seq $((10 * patience))); do [ "$(tm display-message -p -t :0 '#{window_bell_flag}')" = 1 ] && break; sleep 0.1; done
    is "tmux marks the window" "$(tm display-message -p -t :0 '#{window_bell_flag}')" 1
    tm kill-server
fi
exit $status
