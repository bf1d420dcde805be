#!/bin/sh
# --private writes nothing to disk, whatever happens; history_size = 0 keeps no history; a paste that was attached and not sent is removed.
. tests/pty/common.inc
. tests/pty/wire.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

# Everything below the user's folders, with sizes and times; not what was measured of the machine.
tree() {
    find "$XDG_CONFIG_HOME" "$XDG_STATE_HOME" "$XDG_DATA_HOME" "$HF_HUB_CACHE" ! -name prices ! -name reads \
        \( -type d -printf '%p\n' -o -printf '%p %s %T@\n' \) 2> /dev/null | sort
}
unchanged() { is "$1" "$(tree)" "$before"; }
chat() { at 100x24 --no-think --tools none "$@"; }
{ printf '\033[200~'; yes 'a line of a large paste' | head -n 12000; printf '\033[201~'; } > large
mkdir -p "$XDG_DATA_HOME" "$HF_HUB_CACHE"

before=$(tree)
chat --private << 'END'
see a private chat has a sign: PRIVATE
type Say hello\r
see ... and answers: Nice to meet you
see ... to its end:  ready 
type \e[A
see Up brings back what was typed: > Say hello
type \003
send large
see a large paste is asked about: This paste is
type a
see ... but makes no file: a private chat writes no file
type d
type a draft that is not sent
signal TERM
end SIGTERM ends it: 143
END
unchanged "a user who was never here leaves nothing"
chat --private --line << 'END'
see line mode says what private means: nothing is written to disk
type Say hello\r
see ... and answers:  ctx 
type /quit\r
end ... and ends: 0
END
unchanged "... in line mode neither"
chat --private -c << 'END'
see -c without a conversation opens a new chat: no saved conversation to continue
type /restore\r
see ... and the list of deleted ones is empty: the trash is empty
type \004
end ... and it ends: 0
END
unchanged "... and reading makes no folder"

chat << 'END'
see a chat that is kept: F1 keys
type Where is Oslo?\r
see ... answers: do not know that
see ... to its end:  ready 
type \004
end ... and ends: 0
END
before=$(tree)
chat --private -c << 'END'
see a conversation is continued in private: this is a private copy of
type And Bergen?\r
see ... with an answer: > And Bergen?\n\nI am
see ... to its end:  ready 
signal KILL
end ... and is killed: 137
END
unchanged "... its file and all others are as they were"
chat --private $endless << 'END'
see a private chat: PRIVATE
type Go on\r
see ... that is answering: answering
signal KILL
end ... is killed: 137
END
unchanged "... and leaves nothing"
timeout $patience "$q" --model "$demo" --private --no-think -c And Trondheim? < /dev/null > out 2> err
is "a pipe in private answers" "$? $(cat err)" "0 q35chat: this is a private copy of $(basename "$sessions"/*.jsonl .jsonl): nothing is written"
unchanged "... and leaves the conversation as it was"
timeout $patience "$q" --model "$demo" --private --save trip Hello < /dev/null > out 2> err
is "--private --save NAME is an error" "$? $(grep -c 'cannot be combined' err)" "2 1"

# --- no history ---
history=$XDG_STATE_HOME/q35chat/history.jsonl
cp -p "$history" was
mkdir -p "$XDG_CONFIG_HOME/q35chat"
echo 'history_size = 0' > "$XDG_CONFIG_HOME/q35chat/q35chat.conf"
chat << 'END'
see a chat without history: F1 keys
type Say hello\r
see ... answers: Nice to meet you
see ... to its end:  ready 
type \e[A
type x
see ... Up brings nothing back: > x
type \003\004
end ... and it ends: 0
END
is "... the file of before is as it was" "$(cmp "$history" was && echo same)" same
rm "$history"
chat --line << 'END'
see line mode without history: Ctrl-D ends
type Say hello\r
see ... answers:  ctx 
type /quit\r
end ... and ends: 0
END
is "... no file is made" "$(ls "$history" 2> /dev/null)" ""
rm -r "$XDG_CONFIG_HOME/q35chat"

# --- pastes ---
pastes() { ls "$XDG_STATE_HOME/q35chat/pastes" 2> /dev/null | wc -l | tr -d ' '; }
chat << 'END'
see a chat: F1 keys
send large
see ... with a large paste: This paste is
type a
see ... that becomes a file: @/
type \003\004
end ... is left without sending it: 0
END
is "... the file is removed" "$(pastes)" 0
chat --ctx 16k << 'END'
see a chat: F1 keys
send large
see ... with a large paste: This paste is
type a
see ... that becomes a file: @/
signal TERM
end ... and is in the draft when the program is ended: 143
END
is "... stays as long as the draft is kept" "$(pastes)" 1
exit $status
