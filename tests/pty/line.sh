#!/bin/sh
# Line mode of the real program, typed into through a pseudo-terminal (script, of util-linux).
. tests/pty/common.inc
. tests/pty/terminal.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
fill=$(printf '\357\277\275')           # what the endless answer consists of
mkdir -p "$XDG_STATE_HOME/q35chat"
mkfifo "$XDG_STATE_HOME/q35chat/history"        # libedit's own, as an early version kept it
begin --no-think --tools none --no-loop-guard
seen "the prompt is there at once, and nobody waits for a file that is not the history" "> "
type 'Hello\r'
seen "an answer ends with its figures" " ctx "
type '/hel\t\r'
seen "Tab completes a command" "/regen"
type '/set temp\t\r'
seen "Tab completes an option" "temperature = 0"
echo text > "two words.txt"
type '@tw\t'
seen "Tab completes a file to attach, with quotes around a name with a blank" '"two words.txt"'
type '\025'
type '/nosuch\r'
seen "an unknown command is not sent" "unknown command /nosuch"
type 'one\\\rtwo\r'
seen "a backslash continues the line" ". two"
seen "... and the message is answered" " ctx "
type '"""\rthree\rfour"""\r'
seen "a block between quotes is one message" " ctx "
type '\033[200~five\n\tsix\033[201~\r'
seen "a paste with a line end is one message" " ctx "
type 'half a line\003'
seen "Ctrl-C clears the line" "^C"
type '/set max_tokens 0\r'
seen "an option can be changed" "max_tokens = 0"
type '/set presence_penalty -10\r'
seen "... and another" "presence_penalty = -10"
type 'seven\r'
seen "an endless answer begins" "$fill$fill$fill$fill"
type '\003'
seen "Ctrl-C stops the answer" "[stopped]"
seen "... with its figures" " ctx "
type '/undo\r'
seen "/undo takes it back" "taken back: seven"
type '/redo\r'
seen "/redo brings it back" "restored: seven"
seen "... with as much of its answer as there was" "[stopped]"
type '/continue\r'
seen "/continue goes on with it" "$fill"            # not the same bytes: half characters were stored as U+FFFD, which other tokens stand for
type '\003'
seen "... and stops again" "[stopped]"
seen "... with its figures" " ctx "
type '/edit 2\r'
seen "/edit says what the message would take the place of" "your next message replaces that one and everything after it; an empty"
seen "... and puts it into the input" "> five"
type '\003'
seen "... Ctrl-C leaves it" "nothing was changed"
type '/edit 1\r'
seen "... of the last one, too" "everything after it"
type '\025\r'
seen "... and so does an empty line" "nothing was changed"
type '/tree\r'
seen "the tree is shown" "*  10  "
type '/save\r'
seen "the conversation is kept" "sessions/"
type '/load /nonexistent/talk\r'
seen "a missing file gets a sentence" "/nonexistent/talk"
type '\004'
seen "Ctrl-D ends with status 0" "status 0"
end

file=$(ls "$tmp"/state/q35chat/sessions/*.jsonl)
is "messages are in the file" "$(grep -c '"role":"user"' "$file")" 5
has "... a message of two lines as one" "$(cat "$file")" '"content":"one\ntwo"'
has "... a block as one" "$(cat "$file")" '"content":"three\nfour"'
has "... a paste as one" "$(cat "$file")" '"content":"five\n\tsix"'
has "... the stopped answer is marked" "$(grep '"role":"assistant"' "$file" | tail -n 1)" '"stopped":true'
is "files are for their owner alone" "$(ls -l "$file" "$tmp/state/q35chat/history.jsonl" | cut -c1-10 | sort -u)" "-rw-------"
has "the history has what was typed, where the full screen has it" "$(cat "$tmp/state/q35chat/history.jsonl")" '"seven"'

mkdir -p "$tmp/config/q35chat"
printf '[tool shout]\ndescription = says it\ncommand = tr a-z A-Z\n' > "$tmp/config/q35chat/q35chat.conf"
printf 'text\n' > small.txt
printf 'a\0b' > zero.bin
begin --continue
seen "a conversation is resumed" "10 messages"
type '/tools\r'
seen "a tool of the config file is offered" "runs tr a-z A-Z"
type '/drop 10\r'                        # on a busy machine the endless answer may be long, and slow to read
seen "an answer is left out of what is read" "dropped: answer"
type 'see @small.txt\r'
seen "a file is attached" " ctx "
type '/files\r'
seen "... and listed" "5 bytes"
type '@zero.bin\r'
seen "a binary file is refused" "zero.bin looks binary"
type '/keys\r'
seen "/keys tells the keys of this mode" "Ctrl-R searches"
type '/copy\r'
seen "the clipboard is not reached" "/copy FILE"
type '/export md talk.md\r'
seen "the conversation is exported" "bytes to talk.md"
type '/rename A talk\r'
seen "it can be renamed" "title: A talk"
type '/sessions\r'
seen "the conversations are listed" "6 turns  A talk"
type '\022Hel'
seen "Ctrl-R searches the history" "Hello"
type '\003/quit\r'
seen "the way back is shown" "resume with: "
seen "... with the name of the conversation" " -r "
seen "/quit ends" "status 0"
end
begin -r
seen "-r alone lists the conversations" "6 turns  A talk"
type '/quit\r'
seen "... and the chat goes on" "status 0"
end

# The output of the program, without what script and the terminal add.
written() { grep -av '^Script ' "$screen"; }
orders() { written | tr -d '\n\t' | LC_ALL=C tr -cd '\000-\037\177' | od -An -c | head -n 3; }
modes=-onlcr
TERM=dumb
begin -v --tools none
seen "a dumb terminal has a prompt" "> "
type 'Hello\r'
seen "a dumb terminal chats too" " ctx "
type 'ab\177c\020\033[A \033[200~\\\r'
seen "... a line goes on" ". "
type 'd\r'
seen "... and is sent" " ctx "
type 'e\003'
seen "... Ctrl-C clears the line" "> "
type '/edit 1\r'
seen "... a message that is to be edited is told" "it was: ac"
seen "... and what will happen" "an empty line"
type '/keys\r'
seen "... /keys tells the keys that the terminal has" "Ctrl-U"
type '/quit\r'
seen "... and ends" "status 0"
end
is "... what it writes is text alone" "$(written | sed '/^> ab/d' | tr -d '\b' > plain; grep -c "$(printf '\033')\|$(printf '\r')" plain)" 0
file=$(ls -t "$tmp"/state/q35chat/sessions/*.jsonl | head -n 1)
has "... keys that are no text are not sent" "$(cat "$file")" '"content":"ac \nd"'
TERM=xterm

if [ -n "$demo" ]; then
    model=$demo front=
    export ACCESSIBLE=1
    begin --color always --tools-approve ask --max-tokens 400
    seen "ACCESSIBLE=1 is line mode" "ACCESSIBLE is set"
    seen "... that says who speaks" "You: "
    type 'What is 12 + 30?\r'
    seen "... a tool that asks" "Your answer: "
    type 'y\r'
    seen "... the tool's name" "Tool calculator returned: "
    seen "... the answer" "Answer: "
    seen "... to its end" " ctx "
    seen "... the user again" "You: "
    type '/set reasoning show\r'
    seen "thinking is shown when asked for" "reasoning = show"
    type 'What is 4 + 3?\r'
    seen "... by name" "Thinking: "
    seen "... a tool" "Your answer: "
    type 'n\r'
    seen "... the answer" "Answer: "
    seen "... to its end" " ctx "
    type '/quit\r'
    seen "... and ends" "status 0"
    end
    is "with ACCESSIBLE=1 all that is written is text" "$(orders)" ""
    lacks "... thinking is not shown by itself" "$(written | sed '/reasoning show/,$d')" "Thinking: "
    unset ACCESSIBLE
    modes= front=--line
    begin --color always --reasoning show --max-tokens 400
    type 'What is 12 + 30?\r'
    seen "thinking is dim" "$(printf '\033[2m')"
    seen "... as a whole" "$(printf '\033[0m')"
    seen "... before the answer" " ctx "
    type '/quit\r'
    seen "... and ends" "status 0"
    end
    is "... not word by word" "$(($(grep -ao "$(printf '\033')\[2m" "$screen" | wc -l) < 12))" 1
    model=$small
fi
modes=

begin $endless --tools none
seen "the prompt is there again" "> "
type 'eight\r'
seen "another endless answer begins" "$fill$fill$fill$fill"
kill "$job"                             # the terminal goes away in the middle of an answer
end 2> /dev/null
last=$(ls -t "$tmp"/state/q35chat/sessions/*.jsonl | head -n 1)
for i in $(seq $((10 * patience))); do grep -q '"stopped":true' "$last" && break; sleep 0.1; done
has "an answer that loses its terminal is kept" "$(grep -c '"content":"eight"' "$last") $(tail -n 1 "$last")" '"stopped":true'

# Chunks end at multiples of 64: up to 63 tokens, the message and its template remain to be computed after Enter.
begin --no-think --tools all
seen "the prompt is there" "> "
rests
type 'Hello\r'
seen "an answer ends with its figures" " ctx "
type '/stats\r'
seen "the figures of the prompt" "context  "
type '\004'
seen "Ctrl-D ends with status 0" "status 0"
end
left=$(sed -n 's/.*prompt  *\([0-9]*\) tokens, \([0-9]*\) of them from the cache (\2 read ahead).*/\1 \2/p' "$screen" |
    { read -r all ahead && echo $((all - ahead)); })
is "what the first prompt begins with is read before Enter" "$([ "${left:-1000}" -lt 90 ] && echo yes || echo "$left are left")" yes
exit $status
