#!/bin/sh
# Control sequences in text never reach the terminal, whatever the source: tests/data/inject.txt through every input.
# wire.c checks every byte sent to the terminal; tmux checks it independently.
. tests/pty/common.inc
. tests/pty/wire.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
corpus() { grep -v '^#' "$root/tests/data/inject.txt" | while IFS= read -r line; do printf "$line\\n"; done; }
as_json() {
    od -An -v -tu1 | LC_ALL=C awk '{for (i = 1; i <= NF; i++)
        if ($i < 32 || $i == 34 || $i == 92 || $i == 127) printf "\\u%04x", $i; else printf "%c", $i}'
}
corpus > hostile
json=$(grep -av 'lone byte\|overlong\|not begun' hostile | as_json)    # those are no UTF-8, which is a test of its own
title=$(printf 'A \033]0;owned\007\033[2J\033]52;c;aGFja2Vk\007\033[?1049ltitle' | as_json)
usual='mouse, focus, mouse, alternate screen, paste, kept title'
view=$usual

# Tools: their output and their names.
mkdir -p "$XDG_CONFIG_HOME/q35chat"
cat > "$XDG_CONFIG_HOME/q35chat/q35chat.conf" << END
[tool weather]
description = Tells the weather of a place.
parameters = {"type": "object", "properties": {"city": {"type": "string",
    "description": "name of the city"}}, "required": ["city"]}
command = cat $tmp/hostile
END
at 80x24 --tools weather --tools-approve always --no-think --max-tokens 60 << END
see the prompt: ready
type What is the weather in Oslo?\\r
see a tool answers: Ctrl-O)
sh ... and the model: eval "\$answered 2"
type \\033v
see it is looked through:  view
resize 80x6
gone ... in a small window: > What is
type g
gone ... from the start, in a window that ends with the tool: calculator
type \\017
see what it said is opened: clipboard
resize 80x24
type  
clean ... a page: $view
type  
clean ... and one more: $view
type  
clean ... and the next: $view
type q
never no title comes through: owned\\n
bells nothing beeps: 0
type \\033r
see as it was written: RAW
type \\004
end the end: 0
END

# A conversation from somebody else: everything in it.
mkdir -p "$sessions"
{
    printf '{"q35chat":1,"created":"2026-01-01T00:00:00Z","model":"%s","title":"%s"}\n' "$title" "$title"
    printf '{"role":"user","content":"%s"}\n' "$json"
    printf '{"role":"assistant","reasoning":"%s","content":"%s\\n\\n```c\\n%s\\n```\\n\\n| a | b |\\n|---|---|\\n| %s | x |\\n"}\n' "$json" "$json" \
        "$json" "$title"
    printf '{"role":"user","content":"call"}\n'
    printf '{"role":"assistant","content":"","tool_calls":[{"name":"%s","arguments":{"%s":"%s"}}]}\n' "$title" "$title" "$json"
    printf '{"role":"tool","name":"%s","content":"%s"}\n' "$title" "$json"
    printf '{"role":"assistant","content":"[%s](http://x/%s) **%s** `%s`"}\n' "$title" "$title" "$title" "$title"
    printf '{"title":"%s"}\n' "$title"
} > "$sessions/sent.jsonl"
cp "$sessions/sent.jsonl" sent.jsonl
cat > look << END
see CASE, it is resumed: >
type \\017
type \\033v
see CASE, it is looked through:  view
type g
see CASE, from its start: clipboard
$(for i in 1 2 3 4 5 6 7 8 9 10 11 12; do printf 'type  \nclean CASE, page %s: %s\n' $i "$view"; done)
type T
type T
clean CASE, other tables: $view
type q
type /tree\\r
see CASE, the tree: the tree of
clean CASE, nothing in the tree: $usual
type \\003
type /sessions\\r
see CASE, the list: sessions:
clean CASE, nothing in the list: $usual
type \\003
type /context\\r
see CASE, the context: context:
clean CASE, nothing in the context: $usual
type q
type /files\\r
type \\033p
see CASE, the panel or not: >
bells CASE, nothing beeps: 0
title CASE, the title is text: title
type \\004
end CASE, the end: 0
END
for size in 80x24 40x12 120x40; do
    sed "s/CASE/$size/" look > looks
    at $size --tools none --resume sent < looks
done
printf '\233\060m\300\233\061m\377\376\033[5' | cat - sent.jsonl > "$sessions/sent.jsonl"
"$wire" -t $patience 80x24 "$q" --model "$demo" --resume sent << END || status=1
end a damaged one is refused, or not, in plain text: 0 1
END
"$wire" -t $patience 80x24 "$q" session list << END || status=1
end the list of the shell is plain as well: 0
END

# Words of the command line, folders, values of options.
owned=$(printf 'x\033]0;owned\007\302\23331m')
mkdir "$tmp/$owned"
echo '{}' > "$tmp/$owned/config.json"
"$wire" -t $patience 80x24 "$q" --print-config --model "$owned" << END || status=1
end the values of options are printed as text: 0
END
"$wire" -t $patience 80x24 "$q" model verify "$tmp/$owned" << END || status=1
end ... so is the folder of a model: 1
END
"$wire" -t $patience 80x24 "$q" serve status --socket "$tmp/$owned" << END || status=1
end ... the path of a socket: 1
END
"$wire" -t $patience 80x24 "$q" serve status "$owned" << END || status=1
end ... and a word too many: 2
END

# On a terminal the newest ones stay in view.
forget
mkdir -p "$sessions"
for i in $(seq 1 40); do
    printf '{"q35chat":1,"model":"m"}\n{"role":"user","content":"Number %d"}\n' "$i" > "$sessions/talk$i.jsonl"
    touch -d "2026-01-01 00:00:$i" "$sessions/talk$i.jsonl"
done
"$wire" -t $patience 120x50 "$q" session list << END || status=1
see the newest is listed: talk40
see the number of those that are not: ... and 10 older ones
never ... and none of them: talk10
end that is no failure: 0
END
"$wire" -t $patience 120x50 "$q" session list --all << END || status=1
see --all lists all: talk10
end ... without a failure: 0
END

# Names and contents of files.
forget
mkdir files
cp hostile "files/$(printf 'a\033]0;owned\007\033[2Jb')"
cp hostile "files/$(printf 'a\302\23331m\033[?1049lc')"
cp hostile files/plain
at 80x24 --tools none --max-tokens 8 << END
see the prompt for files: ready
type @files/
see names are completed: plain
clean ... as text: $usual
type \\t
type \\033[B\\t
clean ... and taken: $usual
type \\025
see ... or not: >
type see @files/plain\\r
sh a file goes along: eval "\$answered 1"
see ... to an answer: ready
type \\017
clean ... what is in it, as text: $usual
type /files\\r
see ... with its name: files/plain
type /attach files/a\\t
type \\r
clean ... and others: $usual
type /nosuch\\033[2J\\r
type /rename \\033[200~A \\033]0;owned\\007\\033[2Jtitle\\033[201~\\r
clean a title may be anything: $usual
bells ... without a beep: 0
signal TERM
end the end of files: 143
END

# A downloaded checkpoint: its own texts.
evil=$tmp/$(printf '\033]0;owned\007')
mkdir "$evil"
for f in "$demo"/*; do ln -s "$f" "$evil/"; done
rm "$evil/notice.txt"
cp hostile "$evil/notice.txt"
"$wire" -t $patience 80x24 "$q" --model "$evil" << END || status=1
see a checkpoint's notice: ready
clean ... is text: $usual
type /stats\\r
see ... and its name: >
signal TERM
end ... to the end: 143
END

# The same conversation under tmux, which is a terminal of another kind.
cp sent.jsonl "$sessions/sent.jsonl" 2> /dev/null || { mkdir -p "$sessions" && cp sent.jsonl "$sessions/sent.jsonl"; }
second() { TMUX_TMPDIR=$tmp tmux -L second -f /dev/null "$@"; }
shown() {       # NAME TEXT
    for i in $(seq $((10 * patience))); do
        case $(second capture-pane -p) in *"$2"*) ok "$1"; return ;; esac
        sleep 0.1
    done
    bad "$1" "no '$2' in $(second capture-pane -p)"
}
if command -v tmux > /dev/null; then
    second new-session -d -x 80 -y 24 "sh -i"
    second set-option -g set-clipboard on
    second set-option -g allow-rename on
    second send-keys "PS1='sh''> '; clear" Enter
    shown "tmux: a shell" "sh>"
    before=$(second display-message -p \
        '#{pane_title} #{alternate_on} #{mouse_any_flag} #{cursor_flag} #{insert_flag} #{wrap_flag} #{scroll_region_lower}')
    second send-keys "'$q' --model '$demo' --resume sent" Enter
    shown "tmux: the conversation" "F1 keys"
    second send-keys C-o M-v g Space Space Space Space Space Space q
    shown "tmux: looked through" "F1 keys"
    is "tmux: the clipboard is empty" "$(second show-buffer 2>&1)" "no buffers"
    second send-keys C-d
    shown "tmux: the shell again" "sh>"
    for i in $(seq $((10 * patience))); do [ "$(second display-message -p '#{alternate_on}')" = 0 ] && break; sleep 0.1; done
    is "tmux: everything is as before" "$(second display-message -p \
        '#{pane_title} #{alternate_on} #{mouse_any_flag} #{cursor_flag} #{insert_flag} #{wrap_flag} #{scroll_region_lower}')" "$before"
    second kill-server
fi
exit $status
