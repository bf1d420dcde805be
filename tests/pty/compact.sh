#!/bin/sh
# A full context in the real program: a summary replaces the conversation, parts are dropped.
. tests/pty/common.inc
. tests/pty/terminal.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
model=${demo:-$small}
begin --no-think --tools none --ctx 1024
seen "the prompt is there" "> "
type 'What is the capital of France?\r'
seen "a first answer" " ctx "
type 'Tell me more of it.\r'
seen "a second answer" " ctx "
type '/compact the names\r'
seen "a summary is written and offered" "this summary would replace 4 messages (next prompt: "
seen "... with a question" "[y/n] "
type 'n\r'
seen "it can be discarded" "discarded; nothing has changed"
type '/compact\r'
seen "asked for again it is offered again" "[y/n] "
type 'y\r'
seen "... and accepted" "accepted"
type '/context\r'
seen "prompts begin with it" "summary Summary of our conversation so far"
type 'And of Spain?\r'
seen "the conversation goes on" " ctx "
type '/undo 2\r'
seen "/undo goes back before it" "taken back: Summary of our conversation"
type '/drop 1\r'
seen "a message is dropped" "dropped: user What is the capital of France?"
type '/context\r'
seen "... and the list says so" "(dropped: "
type '\004'
seen "Ctrl-D ends with status 0" "status 0"
end

file=$(ls "$tmp"/state/q35chat/sessions/*.jsonl)
is "the summary is in the file" "$(grep -c '"summary":true' "$file")" 1
is "... and the mark" "$(grep -c '"as":"dropped"' "$file")" 1
exit $status
