#!/bin/sh
# Every way in which the full-screen chat ends or is stopped: the terminal is restored, the conversation saved, no process left.
. tests/pty/common.inc
. tests/pty/wire.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
kept='test "$(grep -c "\"role\":\"user\"" "$sessions"/*.jsonl)" = 1 && tail -n 1 "$sessions"/*.jsonl | grep -q "\"stopped\":true"'

# What sends it off, the status that a shell sees.
while read -r status how; do
    forget
    at 80x24 $endless << END
see $how, the prompt: ready
type Tell me a story\\r
see $how, an answer runs: Once upon a time
type a draft
see $how, and a draft is typed: > a draft
$how
end $how, it ends with status $status: $status
sh $how, the answer so far is kept: $kept
sh $how, and the draft: grep -q 'a draft' "$sessions"/*.unsent
END
done << END
143 signal TERM
129 signal HUP
129 hangup
END

forget
at 80x24 $endless << END
see the prompt of one that dies: ready
type Tell me a story\\r
see it answers: answering
see ... word by word: One day
sh a line of it is kept within seconds: grep -q '"role":"user"' "$sessions"/*.jsonl
signal KILL
end nothing can be done against kill -9: 137
END
at 80x24 --continue << END
see after kill -9 the conversation is resumed: > Tell me a story
see ... by name in the status: Tell me a story
type Hello\\r
see ... and goes on: Nice to meet you
see ... and is done: ready
type \\004
end ... to its end: 0
END

for fault in ABRT SEGV; do
    # Sanitizers take faults for themselves.
    [ -z "$SAN" ] || [ $fault = ABRT ] || continue
    at 80x24 << END
see the prompt before $fault: ready
signal $fault
end a fault leaves the terminal as it was: $([ $fault = ABRT ] && echo 134 || echo 139)
END
done

# SIGINT from outside is Ctrl-C.
forget
at 80x24 $endless << END
see the prompt before SIGINT: ready
type Tell me a story\\r
see an answer to be stopped: answering
signal INT
see SIGINT stops it: ready
sh ... and keeps it: $kept
$(for i in $(seq 100); do echo signal INT; done)
signal TERM
end a hundred of them, and it ends: 0 130 143
sh ... and the conversation is whole: $kept
END

# A shell with jobs: stty before and after, Ctrl-Z and fg.
cat > shell << 'END'
PS1='sh> '
END
export ENV=$tmp/shell
forget
"$wire" -t $patience 80x24 sh -i << END || status=1
see a shell: sh>
type stty -a > before; echo noted\\r
see its terminal is noted: \\nnoted
type $q --model $demo --temperature 0 --ctx 4096\\r
see the chat: ready
type Tell me a story\\r
see ... answers: said thank you
see ... to the end: ready
keep
type \\032
see Ctrl-Z goes back to the shell: Stopped
see ... and its prompt: sh>\\n
type stty -a > middle; echo back\\r
see ... which has its terminal: \\nback
sh ... as it was: cmp before middle
type fg\\r
same fg comes back to the same screen
type Hello\\r
see ... that is alive: > Hello
see ... and answers again: Nice to meet you
see ... to the end again: ready
type /quit\\r
see the end leaves the last words in the shell: > Hello
see ... before its prompt: \\nsh>\\n
type stty -a > after; echo over\\r
see ... which goes on: \\nover
sh ... and the terminal as it was: cmp before after
type exit\\r
end the shell ends: 0
END

# Line mode: the shell writes over the line and leaves its own modes.
forget
"$wire" -t $patience 80x24 sh -i << END || status=1
see a shell for line mode: sh>
type $q --model $demo --temperature 0 --ctx 4096 --line\\r
see its prompt: \\n>
type half a draft
see ... with a draft: > half a draft
type \\032
see Ctrl-Z leaves line mode: Stopped
see ... for the shell: sh>\\n
type printf '\\\\033[2J\\\\033[H'\\r
gone ... which clears its screen: half a draft
type fg\\r
see fg shows the prompt and the draft again: > half a draft
type \\001not \\r
see ... and the keys of the line work: > not half a draft
see ... and it is answered:  ctx
type /quit\\r
see ... to the end: \\nsh>\\n
type exit\\r
end the shell after line mode ends: 0
END
ours() { for p in /proc/[0-9]*; do [ "$(cat "$p/comm" 2> /dev/null)" = q35chat ] && grep -q "$tmp" "$p/environ" && echo "$p"; done 2> /dev/null; }
is "no process stays" "$(ours)" ""
exit $status
