#!/bin/sh
# A conversation in the full-screen chat: view mode, search, branches, edits, queue, and continuing it later.
. tests/pty/common.inc
. tests/pty/wire.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

at 80x24 --tools none --no-stats << END
see the prompt: ready
type What is 12 + 30?\\r
sh a sum is answered: eval "\$answered 1"
see ... to its end: ready
see ... rightly: = 42.
type \\017
see Ctrl-O unfolds the reasoning: Ctrl-O closes it
type \\017
gone ... and folds it: Ctrl-O closes it
type Tell me a story\\r
sh a story is told: eval "\$answered 2"
see ... to its end: ready
type Write a poem\\r
sh a poem is written: eval "\$answered 3"
see ... to its end: ready
type \\033v
see Alt-V is view mode:  view  
screen the view: $screens/view-80x24.txt
type /the\\r
see a search has hits: hit 1 of 12
keep
type n
see n goes to the next: hit 2 of 12
type N
same N goes back
screen ... and shows it: $screens/search-80x24.txt
type G
type r
sh r makes another answer: eval "\$answered 4"
see ... beside the first: <2/2>
see ... to its end: ready
type \\033v
see view mode again:  view 
type \\033[D
see Left is the one before: <1/2>
type \\033[C
see Right is the one after: <2/2>
type q
gone q goes back to the input:  view  
type /edit 2\\r
see /edit brings an earlier message: > Tell me a story
type \\025Tell me a joke\\r
sh it is sent anew: eval "\$answered 5"
see ... beside the old one: <2/2>
see ... to its end: ready
gone ... the old path is left: Write a poem
type /tree\\r
see /tree opens: the tree of this conversation
screen ... with everything: $screens/tree-80x24.txt
type \\003
see ... and closes: ready
type /undo\\r
see /undo goes back: taken back: Tell me a joke
gone ... before its answer: Why was the computer
type /redo\\r
see /redo goes forward: Why was the computer
type \\033v/nothing like it\\r
see what is not there is not found: not found
type q/rename A talk about nothing\\r
see it gets a name: A talk about nothing
title ... in the terminal's title, too: A talk about nothing
type a draft for another day
see a draft: for another day
signal TERM
end it is ended in the middle: 143
END

at 80x24 --tools none --continue << END
see another day, -c goes on: > Tell me a joke
see ... with the draft: > a draft for another day
see ... and the name: A talk about nothing
type \\025And a poem\\r
sh ... and the talk: eval "\$answered 6"
see ... to its end: ready
type \\004
end ... until it ends: 0
END
name=$(basename "$sessions"/*.jsonl .jsonl)

at 80x24 --tools none << END
see a new one: Ask anything
type Hello\\r
see ... is answered: Nice to meet you
see ... to its end: ready
type /sessions\\r
see /sessions lists both: A talk about nothing
see ... with the first line where there is no title: Hello
type talk
see what is typed chooses: 1 of 1
type \\r
see Enter goes on with the one: And a poem
type \\004
end the end of both: 0
END

at 80x24 --tools none -r << END
see -r alone opens the list: A talk about nothing
type talk
see ... to choose from: 1 of 1
type \\r
see ... and goes on with the one: And a poem
type \\004
end ... until it ends: 0
END

at 80x24 --tools none --resume "$name" << END
see --resume goes on by name: And a poem
type \\004
end ... and ends: 0
END
at 80x24 --resume nothing-of-the-kind << END
see a name that is not there gets a sentence: nothing-of-the-k
end ... and status 2: 2
END

# What is typed while an answer runs.
forget
at 80x24 $endless << END
see the prompt of a busy one: ready
type Tell me a story\\r
see an answer runs: Once upon a time
type Hello\\r
see what is sent meanwhile waits: queued 1: Hello
type Thanks\\r
see ... and the next one, too: queued 2: Thanks
type \\033[1;3A
see Alt-Up brings the newest back: > Thanks
never ... out of the queue: queued 2
type \\003
see Ctrl-C stops the answer, and the queue: held 1: Hello
see ... with the draft where it was: > Thanks
type \\025\\r
sh Enter sends what is held: grep -q '"content":"Hello"' "\$sessions"/*.jsonl
gone ... which waits no longer: held 1
see ... and is answered: answering
type Bye\\033s
sh Alt-S stops that and sends at once: grep -q '"content":"Bye"' "\$sessions"/*.jsonl
see ... and that is answered: Goodbye
type \\003
see ... until it is stopped: ready
type /stats\\r
see a command works between: of 65536
type \\004
end the end of the busy one: 0
END

forget
at 80x24 --no-stats $endless << END
see the prompt of one that holds: ready
type Tell me a story\\r
see an answer runs again: Once upon a time
type Hello\\r
see ... and a message waits: queued 1: Hello
type \\003
see when it is held, a hint says what Enter does: Enter sends
type \\033[1;3A
see Alt-Up takes it back: > Hello
gone ... and then nothing waits that Enter would send: Enter sends
type \\025\\004
end the end of one that holds: 0
END
exit $status
