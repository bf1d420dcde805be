#!/bin/sh
# Pictures of the real program with the demo model: runs it under tmux, types, waits for what it shows, and writes docs/screens/NAME.svg.
# PNG=DIR writes pictures there as well, for looking at them (needs rsvg-convert).  With names as arguments only those.
cd "$(dirname "$0")/../.." || exit 1
q=${BUILD:-build}/q35chat
out=docs/screens
tmp=$(mktemp -d) || exit 1
export XDG_CONFIG_HOME=$tmp/config XDG_STATE_HOME=$tmp/state XDG_DATA_HOME=$tmp/data HF_HUB_CACHE=$tmp/hub LC_ALL=C.UTF-8 TZ=UTC
unset NO_COLOR FORCE_COLOR ACCESSIBLE Q35CHAT_COLOR Q35CHAT_MODEL SSH_CONNECTION DISPLAY WAYLAND_DISPLAY
mkdir -p "$out" "$XDG_STATE_HOME/q35chat/sessions" "$XDG_CONFIG_HOME/q35chat"
server=0
t() { tmux -S "$tmp/tmux.$server" "$@"; }
trap 'exit 1' INT TERM
trap 't kill-server 2>/dev/null; rm -rf "$tmp"' EXIT

wanted() { [ -z "$only" ] || case " $only " in *" $1 "*) ;; *) false ;; esac; }
only=$*

start() {       # COLUMNS ROWS OPTIONS...
    columns=$1 rows=$2
    shift 2
    t kill-server 2> /dev/null
    server=$((server + 1))
    printf 'set -g status off\nset -g escape-time 0\nset -g default-terminal tmux-256color\n' > "$tmp/tmux.conf"
    t -f "$tmp/tmux.conf" new-session -d -x "$columns" -y "$rows" "$slow $q --temperature 0 --seed 1 $* 2> $tmp/errors; sleep 5"
}
type() { t send-keys "$@"; }
say() { t send-keys -l "$1"; t send-keys Enter; }
seen() {        # PATTERN: waits until the screen has it
    for i in $(seq 1500); do
        t capture-pane -e -p -N > "$tmp/raw" 2> /dev/null
        sed 's/\x1b\[[0-9;]*m//g; s/[\x0e\x0f]//g' "$tmp/raw" > "$tmp/now"
        grep -qE -- "$1" "$tmp/now" && return
        sleep 0.01
    done
    echo "$name: never saw '$1' in:"
    cat "$tmp/now"
}
process() { pgrep -P "$(t display-message -p '#{pane_pid}')" || t display-message -p '#{pane_pid}'; }
# Runs a command while the program, which answers faster than one can see, gets a third of the time.
slowed() {
    pid=$(process)
    while kill -STOP $pid; do sleep 0.02; kill -CONT $pid; sleep 0.01; done &
    slower=$!
    "$@"
    kill $slower
    wait $slower 2> /dev/null
    kill -CONT $pid
}
settle() { sleep "${1:-0.4}"; }
shot() {        # what is on the screen; `shot seen`: what seen() saw
    [ "$1" = seen ] || t capture-pane -e -p -N > "$tmp/raw"
    cursor=$(t display-message -p '#{?cursor_flag,#{cursor_x} #{cursor_y},}')
    python3 assets/screens/svg.py "$columns" "$rows" $cursor < "$tmp/raw" > "$out/$name.svg"
    [ -z "$PNG" ] || rsvg-convert "$out/$name.svg" -o "$PNG/$name.png"
    echo "$out/$name.svg"
}
ready=' ready '

name=start
if wanted $name; then
    start 80 24
    seen "$ready"; settle
    type -l 'Write hello world in C'
    settle; shot
fi

# The demo model loads too fast to be seen, so the program gets little of the time for a while.
name=loading
if wanted $name; then
    slow='sh -c "kill -STOP \$\$; exec \"\$@\"" sh'
    start 80 24 --threads 1
    slow=
    settle
    pid=$(process)
    typed=
    for i in $(seq 300); do
        kill -CONT $pid; sleep 0.001; kill -STOP $pid
        seen ''
        grep -q 'weights.*%' "$tmp/now" && grep -q 'I can.*loads' "$tmp/now" && break
        [ -n "$typed" ] || ! grep -q 'loading' "$tmp/now" || { typed=1; type -l 'I can type while it loads'; }
        [ -z "$typed" ] || sleep 0.1
    done
    shot seen
    kill -CONT $pid
fi

name=reading
if wanted $name; then
    start 80 24
    seen "$ready"
    t send-keys -l 'What is @docs/architecture.md about?'; settle; type Enter
    seen 'reading .* [5-7][0-9]%'
    shot seen
fi

name=answer
if wanted $name; then
    start 80 24 --threads 1 --draft 0
    seen "$ready"
    say 'Tell me a story.'; settle; seen "$ready.*tok/s"
    say 'Write hello world in C'
    slowed seen 'answering.* [0-9.]+ tok/s '
    shot seen
fi

name=code
if wanted $name; then
    cp assets/screens/talk.jsonl "$XDG_STATE_HOME/q35chat/sessions/"
    start 80 30 --resume talk
    seen "$ready"; settle
    shot
fi

name=tool
if wanted $name; then
    start 80 24 --tools-approve ask
    seen "$ready"
    say 'What time is it in Tokyo?'
    seen 'waiting for approval'; settle 0.8
    shot
    type y
    name=tool-result
    seen "$ready.*tok/s"; settle
    shot
fi

name=search
if wanted $name; then
    start 80 24
    seen "$ready"
    say 'Write hello world in C'; seen "$ready.*tok/s"; settle
    say 'Write hello world in bash'; settle; seen "$ready.*tok/s"; settle
    type M-v; settle; type -l '?hello'; type Enter
    settle; shot
fi

name=tokens
if wanted $name; then
    start 80 24 --temperature 0.8 --no-think
    seen "$ready"
    say 'Tell me a story.'; seen "$ready.*tok/s"; settle
    type M-i; settle; type Home
    settle; type Up
    settle; shot
fi

name=heat
if wanted $name; then
    start 80 24
    seen "$ready"
    say 'Tell me a story.'; seen "$ready.*tok/s"; settle
    say 'What is 348 + 277?'; settle; seen "$ready.*tok/s"; settle
    type M-h
    settle; shot
fi

name=panel
if wanted $name; then
    start 120 40
    seen "$ready"
    type M-p
    for words in 'My name is Ann.' 'Write hello world in C' 'What time is it in Tokyo?' 'What is 348 + 277?'; do
        say "$words"; settle; seen "$ready.*tok/s"; settle
    done
    say 'Tell me a story.'
    slowed seen 'answering.* [0-9.]+ tok/s '
    shot seen
fi

name=sessions
if wanted $name; then
    for words in 'What is the capital of Norway?' 'Tell me a joke.' 'Write hello world in Python' 'What is 17 + 25?'; do
        start 80 24
        seen "$ready"
        say "$words"; seen "$ready.*tok/s"
        type C-d; settle 1
    done
    start 80 24
    seen "$ready"
    say '/sessions'
    settle 1; shot
fi

name=small
if wanted $name; then
    start 40 12
    seen "$ready"
    say 'Write hello world in C'; settle; seen "$ready"; settle
    shot
fi

name=line
if wanted $name; then
    start 80 24 --line
    seen '^> ?$'
    say 'Hello!'; seen '^> Hello!'; seen '^> ?$'
    say 'What time is it in Tokyo?'; seen '^> What'; seen '^> ?$'
    say '/stats'; seen '^snapshots|^> ?$'; settle
    shot
fi
