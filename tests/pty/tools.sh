#!/bin/sh
# Tools of the config file, called by the demo model: a call is shown, approved, run without a shell, and limited in time.
. tests/pty/common.inc
. tests/pty/terminal.inc
trap 'rm -rf "$tmp"' EXIT
if [ -z "$demo" ]; then
    echo "skip tools: assets/demo is not there"
    exit 0
fi
model=$demo
cd "$tmp" || exit 1
mkdir -p config/q35chat

weather() {     # COMMAND FURTHER-LINES: the config file; the model knows how to call a tool of this kind
    cat > config/q35chat/q35chat.conf << END
[tool weather]
description = Tells the weather of a place.
parameters = {"type": "object", "properties": {"city": {"type": "string",
    "description": "name of the city"}}, "required": ["city"]}
command = $1
$2
END
}
chat() { begin --max-tokens 200 --tools weather "$@"; seen "the prompt is there" "> "; }

weather "tee -a $tmp/arguments"
chat
type 'What is the weather in Oslo?\r'
seen "a call is shown" '[weather: {"city": "Oslo"}]'
seen "... with the command" "runs tee -a $tmp/arguments"
seen "... and where it would run" "in $tmp"
seen "... and asked for" "run weather?"
seen "... with its answers" "[y/n/always] "
is "... before anything runs" "$(cat arguments 2> /dev/null)" ""
type 'a message, typed too early\r'
seen "what is no answer is asked again" "[y/n/always] "
type 'n\r'
seen "a refusal is told to the model" "did not allow"
seen "... and the turn goes on to its end" " ctx "
is "... and nothing ran" "$(cat arguments 2> /dev/null)" ""
type '/new\r'
seen "a new conversation" "a new conversation"
type 'What is the weather in Oslo?\r'
seen "it is asked again" "[y/n/always] "
type 'y\r'
seen "yes runs it" '[-> weather: {"city": "Oslo"}]'
seen "... and the turn goes on" " ctx "
is "... with the arguments as JSON on its stdin" "$(cat arguments)" '{"city": "Oslo"}'
type '/new\r'
seen "another new conversation" "a new conversation"
type 'What is the weather in Oslo?\r'
seen "yes is for one call" "[y/n/always] "
type '\003'
seen "Ctrl-C at the question stops the turn" "[stopped]"
is "... and nothing ran again" "$(cat arguments)" '{"city": "Oslo"}'
type '/new\r'
seen "a conversation for pastes" "a new conversation"
cp arguments before
type 'What is the weather in Oslo?\r'
seen "it is asked for pastes" "[y/n/always] "
type '\033[200~y\r\033[201~'
seen "a paste of an answer is refused" "pasted text is not an answer"
seen "... and asked again" "[y/n/always] "
type '\033[200~first\ralways\rlast\033[201~'
seen "... a line of several, too" "pasted text is not an answer"
seen "... and asked again" "[y/n/always] "
type '\033[200~x\033[201~y\r\033[201~'
seen "... and what follows an end of the paste within it" "pasted text is not an answer"
seen "... and asked again" "[y/n/always] "
type 'alw\033[200~ays\033[201~\r'
seen "... and a word of which a part was typed" "pasted text is not an answer"
seen "... and asked again" "[y/n/always] "
type 'no\rone\ralways\r'
seen "... and lines that a terminal does not mark" "pasted text is not an answer"
seen "... and asked again" "[y/n/always] "
is "... nothing ran" "$(cmp arguments before && echo same)" same
type 'n\r'
seen "a typed answer counts" "did not allow"
seen "... and the turn ends" " ctx "
type '/new\r'
seen "a conversation for keys that come early" "a new conversation"
type 'What is the weather in Oslo?\ry\ry\r'
seen "keys from before the question do not answer it" "nor are keys from before the question"
seen "... it is asked again" "[y/n/always] "
is "... nothing ran then" "$(cmp arguments before && echo same)" same
type 'n\r'
seen "... a typed no counts" "did not allow"
seen "... and that turn ends" " ctx "
type '/new\r'
seen "one more new conversation" "a new conversation"
type 'What is the weather in Oslo?\r'
seen "it is asked once more" "[y/n/always] "
type 'always\r'
seen "always runs it" "[-> weather: "
seen "... and the turn ends" " ctx "
type '/new\r'
seen "the last new conversation" "a new conversation"
from=$at
type 'What is the weather in Oslo?\r'
seen "always is for the next calls too" "[-> weather: "
seen "... which end" " ctx "
is "... without a question" "$(tail -c "+$from" "$screen" | grep -c 'run weather')" 0
type '/quit\r'
seen "the chat ends" "status 0"
end

begin --max-tokens 200 --tools calculator,clock
seen "the prompt is there for built-ins" "> "
type 'What time is it?\r'
seen "built-in tools run without a question" "[-> clock: "
type '/quit\r'
seen "... and the chat ends" "status 0"
end
begin --max-tokens 200 --tools clock --tools-approve ask
seen "the prompt is there again" "> "
type 'What time is it?\r'
seen "... unless everything is to be asked for" "run clock?"
type 'y\r'
seen "... and then run" "[-> clock: "
type '/quit\r'
seen "... and the chat ends as well" "status 0"
end

# Without a terminal to ask on.
ask() { timeout $patience "$q" --model "$demo" --temperature 0 --tools weather --json "$@" 'What is the weather in Oslo?' < /dev/null > out 2> err; }
result() { sed -n 's/.*"result":"\([^"]*\)".*/\1/p' out; }
: > arguments
ask
has "without a terminal a call is refused" "$(result)" "not allowed"
is "... and not run" "$(cat arguments)" ""
ask --tools-approve weather
has "a script allows a tool by name" "$(cat out)" '\"city\": \"Oslo\"'
ask --tools-approve always
has "... or all of them" "$(cat out)" '\"city\": \"Oslo\"'
weather /nonexistent/program
ask --tools-approve always
has "a missing program is told to the model" "$(result)" "cannot run /nonexistent/program"
nap=98$$           # a number of our own, and a pattern that does not match itself
weather "sh -c 'sleep $nap & sleep $nap'" "timeout_s = 1"
ask --tools-approve always
has "a tool that hangs is ended" "$(result)" "longer than 1 s"
naps() { cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\0' ' ' | grep -c "[s]leep $nap"; }
for i in $(seq $((10 * patience))); do [ "$(naps)" -eq 0 ] && break; sleep 0.1; done
is "... with all that it started" "$(naps)" 0
weather "cat /dev/zero" "max_output = 100"
ask --tools-approve always
has "a tool that floods is ended" "$(result)" "more than 100 bytes"
weather "sh -c 'echo half; exit 3'"
ask --tools-approve always
has "a failure is told to the model" "$(result)" "exit status 3"
exit $status
