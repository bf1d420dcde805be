#!/bin/sh
# Going to another conversation and back in one program: what was computed of either is still there.
. tests/pty/common.inc
. tests/pty/terminal.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
sessions=$XDG_STATE_HOME/q35chat/sessions

# Tokens of the newest prompt that were not computed again, as the last /stats says.
cached() { tr -d '\r' < "$screen" | sed -n 's/.*prompt  *[0-9]* tokens, \([0-9]*\) of them.*/\1/p' | tail -n 1; }

# OPTIONS...: two conversations, and once more something in the first one.
there_and_back() {
    rm -rf "$sessions"
    begin --no-think --tools none --no-read-ahead --no-checkpoint "$@"
    seen "a conversation begins ($*)" "> "
    type 'A message that is long enough to be worth keeping, in the first of two conversations\r'
    seen "... and is answered" " ctx "
    first=$(ls "$sessions" | sed 's/\.jsonl$//')
    type '/new\r'
    type 'Something else\r'
    seen "another one takes its place on the screen" " ctx "
    type "/resume $first\\r"
    seen "the first one comes back" "2 messages"
    type 'More\r'
    seen "... and goes on" " ctx "
    type '/stats\r'
    seen "/stats has its prompt" "of them from the cache"
    seen "... and what is resident" "conversations,"
    type '/quit\r'
    seen "... and it ends" "status 0"
    end
}

there_and_back
has "two conversations are resident" "$(cat "$screen")" "resident   2 of "
kept=$(cached)
is "... and nothing says that anything was read again" "$(grep -c 'refill  ' "$screen")" 0
there_and_back --conversations 1
has "with room for one it is one" "$(cat "$screen")" "resident   1 of 1 conversations"
lost=$(cached)
has "... and /stats says why the prompt was read again" "$(tr -d '\r' < "$screen")" \
    "refill     no part of the conversation was cached, in memory or in a"
# The message has more than 80 tokens, since each is a byte; both prompts begin alike.
is "of the first one nothing was computed again" "$([ "${kept:-0}" -gt 100 ] && echo yes)" yes
is "... which room for one does not give" "$([ "${lost:-999}" -lt 40 ] && echo yes)" yes
exit $status
