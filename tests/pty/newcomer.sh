#!/bin/sh
# The first minute of somebody who knows nothing: look, turn the wheel, ask, select, copy, leave, come back; in the key forms of several terminals.
. tests/pty/common.inc
. tests/pty/wire.inc
tm() { TMUX_TMPDIR=$tmp tmux -L newcomer -f /dev/null "$@"; }
trap 'tm kill-server 2> /dev/null; rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

minute() {      # NAME WHEEL-UP WHEEL-DOWN ENTER
    forget
    rm -f answer.txt
    "$wire" -t $patience -l sent 80x24 "$q" --model "$demo" --temperature 0 --ctx 4096 --no-think --tools none << END || status=1
see $1, the prompt: ready
see $1, what to try is said: Try: What is 17 + 25?
type $2$2$3$3
type What is 17 + 25?$4
sh $1, a question is answered: eval "\$answered 1"
see $1, ... on the screen: = 42.
see $1, ... to its end: ready
type /help$4
see $1, a page of help: starts a conversation
keep
type $3$3
gone $1, the wheel scrolls it: starts a conversation
see $1, ... and says where the end is: End to follow
type $2$2
same $1, ... back again
type Tell me a story
see $1, the draft has what was typed: > Tell me a story
type $2$3
see $1, ... and the wheel leaves it alone: > Tell me a story
never $1, ... instead of the message before: > What is 17 + 25?
type \\025/copy answer.txt$4
sh $1, the answer is copied: grep -qs '= 42\.' answer.txt
type \\004
end $1, it ends: 0
END
    has "$1, the way back is printed" "$(cat sent)" "q35chat -r "
    "$wire" -t $patience 80x24 "$q" --model "$demo" --continue << END || status=1
see $1, the conversation is there again: What is 17 + 25?
see $1, ... whole: = 42.
see $1, ... and ready: ready
type \\004
end $1, ... until it ends: 0
END
}
minute "xterm and VTE" '\033[<64;9;9M' '\033[<65;9;9M' '\r'
minute "kitty" '\033[<64;9;9M' '\033[<65;9;9M' '\033[13u'
minute "an old terminal" '\033[M`))' '\033[Ma))' '\r'
minute "a wheel that sends arrows" '\033OA\033OA\033OA' '\033OB\033OB\033OB' '\r'

# Who drags to select gets the mouse for the next try, and the wheel back with the next key.
forget
"$wire" -t $patience -l sent 80x24 "$q" --model "$demo" --temperature 0 --ctx 4096 --no-think --tools none << END || status=1
see before a drag, the prompt: ready
clean ... the program has the mouse: mouse, focus, mouse, alternate screen, paste, kept title
type \\033[<0;5;5M\\033[<0;20;5m
see a drag is explained: the terminal has the mouse until your next key
clean ... and the terminal has the mouse: focus, alternate screen, paste, kept title
type x
clean ... until the next key: mouse, focus, mouse, alternate screen, paste, kept title
type \\025\\033m
see Alt-M leaves the mouse to the terminal: mouse off
clean ... for good: focus, alternate screen, paste, kept title
type \\004
end the end of the drag: 0
END

# As over SSH to an account where nothing is set.
home=$tmp/home
mkdir "$home"
"$wire" -t $patience 80x24 env -i HOME="$home" TERM=xterm-256color PATH="$PATH" SSH_CONNECTION='192.0.2.1 1 192.0.2.2 22' \
    "$q" --model "$demo" --temperature 0 --ctx 4096 --no-think --tools none << END || status=1
see over SSH, the prompt: ready
type What is 17 + 25?\\r
see over SSH, an answer: = 42.
see over SSH, ... to its end: ready
type \\004
end over SSH, the end: 0
END
"$wire" -t $patience 80x24 env -i HOME="$home" TERM=xterm-256color PATH="$PATH" SSH_CONNECTION='192.0.2.1 1 192.0.2.2 22' \
    "$q" --model "$demo" --continue << END || status=1
see over SSH, the conversation is there again: = 42.
see over SSH, ... and ready: ready
type \\004
end over SSH, ... until it ends: 0
END

# In tmux, with its mouse on and off.
pane() {        # NAME TEXT: waits for it
    for i in $(seq $((10 * patience))); do
        case $(tm capture-pane -p) in *"$2"*) ok "$1"; return ;; esac
        sleep 0.1
    done
    bad "$1" "no '$2' in $(tm capture-pane -p)"
}
if command -v tmux > /dev/null; then
    forget
    tm new-session -d -x 80 -y 24 "'$q' --model '$demo' --temperature 0 --ctx 4096 --no-think --tools none"
    pane "tmux: the prompt" "ready"
    is "tmux: it gets the wheel" "$(tm display-message -p '#{mouse_standard_flag} #{mouse_sgr_flag}')" "1 1"
    tm send-keys "What is 17 + 25?" Enter
    pane "tmux: an answer" "= 42."
    pane "tmux: ... to its end" "ready"
    tm send-keys Up Up Up                       # tmux writes them at once, as a terminal does for its wheel when the mouse of tmux is off
    sleep 0.5
    is "tmux: the wheel types nothing" "$(tm capture-pane -p | tail -n 1)" ">"
    tm send-keys C-u C-d
    for i in $(seq $((10 * patience))); do tm has-session 2> /dev/null || break; sleep 0.1; done
    is "tmux: it ends" "$(tm has-session 2> /dev/null; echo $?)" 1
fi

# A picture on the screen, with the tools of a chat.
if [ -e "$demo/model_vision.safetensors" ]; then
    forget
    at 80x24 --temperature 0 << END
see a chat with eyes: ready
type @$demo/square.png What colour is the square?\\r
see ... tells what it sees: The square is red.
see ... to its end: ready
type \\004
end ... and ends: 0
END
fi
exit $status
