#!/bin/sh
# How a chat is started and left: with a prompt, with files, with text on stdin; with the model that the conversation was held with; with the line
# that resumes it; without the usual variables.
. tests/pty/common.inc
. tests/pty/wire.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

# The demo model under another name, which is not the default, and has a blank and a quote.
other="$tmp/it's other"
mkdir "$other"
for f in "$demo"/*; do ln -s "$f" "$other/"; done

chat() {        # PROGRAM OPTIONS...: in a terminal, with no model chosen
    "$wire" -t $patience -l "$tmp/sent" 100x24 "$@" --temperature 0 --ctx 4096 --no-think --tools none || status=1
}
pipe() { timeout $patience "$q" --temperature 0 --no-think "$@" < /dev/null 2> err > out; }
hint() { tr -d '\r' < "$tmp/sent" | sed -n 's/^resume with: //p' | tail -n 1; }
header() { sed -n '1s/.*"model":"\(.*\)".*/\1/p' "$1"; }

# --- a prompt, files, stdin ---
echo 'The door is red.' > 'a note.txt'
chat "$q" -i 'What is 17 + 25?' << 'END'
see -i sends the prompt: > What is 17 + 25?
see ... and the answer comes: 42
see ... and it waits for the next message:  ready 
type \e[A
see Up brings the prompt back: What is 17 + 25?
type \003\004
end ... and it ends: 0
END
forget
chat "$q" --tui 'Hello' << 'END'
see --tui with a prompt opens a chat, too: > Hello
see ... which answers:  ready 
type \004
end ... and ends: 0
END
forget
chat "$q" -f 'a note.txt' << 'END'
see a file without a prompt is in the draft: > @"a note.txt"
type Hi\r
see ... and goes with the message: a note.txt  17 bytes
see ... which is answered:  ready 
type \004
end ... and ends: 0
END
has "... the conversation has its text" "$(cat "$sessions"/*.jsonl)" "The door is red."
forget
chat "$q" -i 'Say hello' -f 'a note.txt' << 'END'
see a prompt and a file are sent: > @"a note.txt" Say hello
see ... and answered:  ready 
type \004
end ... and end: 0
END
has "... the conversation has both" "$(cat "$sessions"/*.jsonl)" "The door is red."
forget
chat "$q" -i 'What colour is the square?' -f "$demo/square.png" << 'END'
see a prompt is sent when its picture has been read: square.png  160x160
see ... and answered:  ready 
type \004
end ... and ends: 0
END
forget
chat sh -c 'echo "Say hello, @nobody" | "$0" -i "$@"' "$q" << END
see text of stdin is the first message: > Say hello, @nobody
see ... and keys come from the terminal:  ready 
type What is 17 + 25?\\r
see ... which are answered: 42
sh ... to the end: $answered 2
type \\004
end ... and it ends: 0
END
forget
chat sh -c 'echo "Say hello" | "$0" --line "$@"' "$q" << 'END'
see ... in line mode, too: Say hello
see ... with its answer:  ctx 
type What is 17 + 25?\r
see ... and keys from the terminal: 42
see ... and figures:  ctx 
type /quit\r
end ... and the end: 0
END
forget
chat sh -c 'echo "Look at @small" > text; echo secret > small; "$0" -i "$@" < text' "$q" << 'END'
end text of stdin never chooses a file to attach: 2
END
has "... but says how" "$(cat sent)" "use -f FILE"
setsid -w timeout $patience "$q" -i Hello < /dev/null > out 2> err
is "without a terminal -i is an error" "$? $(grep -c '/dev/tty' err)" "2 1"
for flag in -x --json --strict --no-stream '--timeout 9'; do
    chat "$q" $flag -i Hello << END
end $flag is for one answer and no chat: 2
END
done
has "... with a sentence" "$(cat sent)" "--timeout is for one answer, and --interactive opens a chat"
chat "$q" -x << 'END'
end -x without a prompt is an error: 2
END
has "... with a sentence" "$(cat sent)" "--extract is for one answer, and without a prompt this is a chat"
chat "$q" -f nothere << 'END'
end a file that is not there is an error before the chat: 2
END

# --- the model of a conversation ---
forget
chat "$q" -c << 'END'
see -c without a conversation opens a new chat: no saved conversation to continue
type \004
end ... which ends: 0
END
pipe -c Hello
is "with a prompt it is an error" "$? $(cat err)" "2 q35chat: no saved conversation to continue"
ln -s "$q" './my chat'
chat './my chat' -m "$other" -i 'Where is Oslo?' << 'END'
see a conversation with another model:  ready 
type \004
end ... is left: 0
END
file=$(ls "$sessions"/*.jsonl)
name=$(basename "$file" .jsonl)
is "the file names the model's directory" "$(header "$file")" "$other"
is "the hint repeats the program, quoted, and needs no option" "$(hint)" "'./my chat' -r $name"
chat sh -c "$(hint) \"\$@\"" sh << END
see pasted into a shell it resumes: Where is Oslo?
never ... with the model of the conversation: was held with
type /stats\r
see ... and nothing is said of another one:  ready 
type /quit\r
end ... and ends: 0
END
chat "$q" -c << 'END'
see -c says what it continues: continuing "Where is Oslo?"
type /set model\r
see ... and /set where the model comes from: (conversation; directory or name of the model
type /set system\r
see ... and the system prompt: system is not set   (conversation; 
type \004
end ... and ends: 0
END
pipe -r "$name" And Bergen?
is "a pipe uses that model, too" "$(cat err)" ""
chat "$q" -m "$demo" -r "$name" << 'END'
see a model of the command line wins, and the difference is shown: it's other; 
type \004
end ... and it ends: 0
END
is "... the hint then names the model" "$(hint)" "$q -m $demo -r $name"
chat "$q" << END
see a chat with the default model: F1 keys
type /resume $name\r
see ... says that the conversation had another one: this conversation was held with
type \004
end ... and ends: 0
END
rm -r "$other"
chat "$q" -r "$name" << 'END'
see a model that is gone is named: which is no longer there;
type \004
end ... and the default one answers: 0
END
pipe -c And Trondheim?
has "... in a pipe on stderr" "$(cat err)" "which is no longer there"
pipe -m "$other" -r "$name" And Tromso?
is "... but one that was asked for is an error" "$?" 3

# --- servers ---
mkdir -p "$XDG_CONFIG_HOME/q35chat"
cat > "$XDG_CONFIG_HOME/q35chat/q35chat.conf" << 'END'
[endpoint box]
url = http://127.0.0.1:9/v1
END
foreign() { printf '{"q35chat":1,"model":"%s"}\n{"role":"user","content":"Hello"}\n' "$2" > "$1"; }
forget
mkdir -p "$sessions"
foreign "$sessions/far.jsonl" 'http://127.0.0.1:10/v1 big'
pipe -r far Again
has "a conversation with a server asks that server" "$(cat err)" "127.0.0.1 port 10"
foreign ./letter.jsonl 'http://127.0.0.1:10/v1 big'
pipe -r ./letter.jsonl Again
is "... but a file from elsewhere chooses no server" "$? $(grep -c 127.0.0.1:10 err) $(grep -c 'was held with' err)" "0 1 1"
foreign ./letter.jsonl 'http://127.0.0.1:9/v1 big'
pipe -r ./letter.jsonl Again
has "... unless the config file has it" "$? $(cat err)" "3 q35chat: "

# A q35chat on a socket of its own is such a server, too.
"$q" serve --socket "$tmp/own.sock" --model "$demo" 2> serve.log &
server=$!
for i in $(seq $((10 * patience))); do "$q" serve status --socket "$tmp/own.sock" 2> /dev/null | grep -q 'tokens of context' && break; sleep 0.1; done
forget
chat "$q" --endpoint "unix:$tmp/own.sock" -i 'Where is Oslo?' << 'END'
see a chat with a q35chat on a socket answers: do not know
see ... to the end:  ready 
type \004
end ... and ends: 0
END
is "... its file names the socket" "$(header "$sessions"/*.jsonl)" "unix:$tmp/own.sock"
kill $server
wait $server 2> /dev/null
pipe -c And Bergen?
has "... which is asked again" "$? $(cat err)" "$tmp/own.sock"

# --- without the usual variables, as from su or cron ---
rm -r "$XDG_CONFIG_HOME/q35chat"
mkdir home
bare() {
    "$wire" -t $patience -l "$tmp/sent" 100x24 env -i HOME="$tmp/home" TERM=xterm "$q" -m "$demo" --temperature 0 --no-think --tools none "$@" ||
        status=1
}
bare << 'END'
see without variables the full screen opens: F1 keys
type Where is Oslo?\r
see ... and answers: do not know that
see ... to its end:  ready 
type \004
end ... and ends: 0
END
is "... and keeps the conversation in HOME" "$(ls home/.local/state/q35chat/sessions | grep -c 'jsonl$')" 1
bare -c << 'END'
see ... and continues it: continuing "Where is Oslo?"
type \004
end ... and ends: 0
END
bare --line -c << 'END'
see ... in line mode, too: continuing "Where is Oslo?"
type /quit\r
end ... and ends: 0
END
env -i HOME="$tmp/home" timeout $patience "$q" -m "$demo" --no-think Hello < /dev/null > out 2> err
is "... and a pipe answers without a word" "$? $(cat err)" "0 "
env -i timeout $patience "$q" -m "$demo" --no-think Hello < /dev/null > out 2> err
is "... and without HOME" "$? $(cat err)" "0 "
exit $status
