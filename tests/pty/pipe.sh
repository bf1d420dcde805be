#!/bin/sh
# Pipe mode of the real program: stdout, stderr and exit status.
. tests/pty/common.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

ask() { timeout $patience "$q" --model "$small" --temperature 0 "$@" > out 2> err; rc=$?; }

printf 'Hello' > in
ask --no-think -n 24 < in
is "an answer ends with status 0" "$rc" 0
is "the answer ends with exactly one newline" "$(tail -c 1 out | od -An -tx1) $(tail -c 2 out | head -c 1 | od -An -tx1 | grep -c ' 0a')" " 0a 0"
is "that it was cut is said on stderr, and nothing else" "$(cat err)" "q35chat: the answer was cut off: max_tokens is reached"
cp out first
ask --no-think -n 24 Hello < /dev/null
is "an argument and stdin give the same answer" "$(cmp out first && echo same)" same
ask --no-think -n 4 -v Hello < /dev/null
is "-v tells how memory was planned" "$(grep -c '^q35chat: memory planned: .* stay free: weights .*, KV cache ' err)" 1
ask --no-think -n 24 --no-stdin Hello < /dev/zero
is "--no-stdin does not read it" "$(cmp out first && echo same)" same
printf 'b' > in
ask --no-think -n 24 a < in
cp out both
ask --no-think -n 24 "a

b" < /dev/null
is "arguments come first, an empty line, then stdin" "$(cmp out both && echo same)" same

printf 'Hello' > in
ask --no-think -n 24 --json < in
is "--json ends with status 0" "$rc" 0
is "--json is one line" "$(wc -l < out | tr -d ' ')" 1
for key in answer reasoning tool_calls finish tokens prompt cached generated tok_per_s acceptance acceptance_by_position gb_per_token steps \
    model seed; do
    has "--json has $key" "$(cat out)" "\"$key\":"
done
printf 'Hello' > in
ask --no-think -n 24 --jsonl < in
is "--jsonl ends with end" "$(tail -n 1 out | grep -c '^{"type":"end"')" 1
is "--jsonl has an object in every line" "$(grep -vc '^{"type":.*}$' out)" 0

ask --reasoning only -n 24 Hello < /dev/null
cp out reasoning
ask --reasoning show -n 24 Hello < /dev/null
is "--reasoning shows what is otherwise hidden" "$(cmp out reasoning && [ -s out ] && echo same)" same
ask -n 24 Hello < /dev/null
is "reasoning is hidden" "$(cat out)" ""

: > in
ask < in
is "empty stdin is a usage error" "$rc" 2
has "... with a sentence" "$(cat err)" "stdin is empty"
ask --no-stdin
is "no prompt is a usage error" "$rc" 2
ask --no-such-option x < /dev/null
is "an unknown option is a usage error" "$rc" 2
ask --temperature hot x < /dev/null
is "a bad value is a usage error" "$rc" 2
addresses="expected an address that begins with http:// or https://, unix:PATH, or the name of an [endpoint NAME] section of the config file,"
addresses="$addresses which has none"
while IFS='|' read -r flag value sentence; do
    XDG_STATE_HOME=$tmp/none ask "$flag" "$value" x < /dev/null
    is "$flag $value is a usage error, told before the model loads" "$rc $(cat out err)" "2 q35chat: $sentence"
done << EOF
--tools|nosuch|unknown tool nosuch; expected one of clock, calculator
--tools-approve|nosuch|tools_approve is neither auto, ask, always, never nor names of tools: unknown tool nosuch; expected one of clock, calculator
--kv|nosuch|--kv is 'nosuch', expected one of auto|f32|bf16|int8|k8v4|tq4|k4v3
--endpoint|nosuch|the endpoint is 'nosuch', $addresses
--endpoint|ftp://nosuch|the endpoint is 'ftp://nosuch', $addresses
--endpoint|http://|the endpoint is 'http://', $addresses
-r|nosuch|no conversation nosuch; /sessions and q35chat session list show the names
-r|./nosuch|cannot open ./nosuch: No such file or directory
--save|nosuch/a|cannot make nosuch/a: No such file or directory
--key|F1 nosuch|key = F1 nosuch: unknown action nosuch; /keys all lists them
--backend|nosuch|--backend is 'nosuch', expected one of cpu|cuda
--lookup|off|--lookup is followed by 'off', expected --lookup=off; -- before it makes it a word of its own: --lookup -- off
EOF
XDG_STATE_HOME=$tmp/none ask -c x < /dev/null
is "-c where there is no conversation is a usage error" "$rc $(cat out err)" "2 q35chat: no saved conversation to continue"
timeout $patience "$q" --model "$small" <&- 2> err
is "a closed stdin is an empty one" "$?" 2
ask --no-think -n 24 Hello <&-
is "... which does no harm to a prompt" "$(cmp out first && echo same)" same
timeout $patience "$q" --model "$small" --no-think -n 24 Hello < /dev/null >&- 2> err
is "a closed stdout fails" "$?" 1
has "... with a sentence" "$(cat err)" "cannot write the answer"
printf 'a\000b' > in
ask < in
is "binary stdin is a usage error" "$rc" 2
is "... whose sentence says how pictures are given" "$(grep -c "with -f FILE" err)" 1
head -c 3000000 /dev/zero | tr '\0' a > in
ask < in
is "a prompt longer than the context fails" "$rc" 4
has "... and names both numbers" "$(cat err)" "maximum context length is 32768 tokens; the prompt has"
timeout $patience "$q" --model "$tmp/nowhere" x < /dev/null > out 2> err
is "a missing model fails" "$?" 3
has "... and is named" "$(cat err)" "$tmp/nowhere"
is "... and stdout is empty" "$(cat out)" ""
timeout $patience "$q" --model nowhere x < /dev/null > out 2> err
is "a name that no model has fails alike" "$? $(cat out err)" \
    "3 q35chat: nowhere is neither a directory nor a model on this machine, which \`q35chat model list\` lists"
timeout $patience "$q" --model "$small" --no-think -n 20 x < /dev/null > /dev/full 2> err
is "a full disk fails" "$?" 1
timeout $patience "$q" --print-config > /dev/full 2> err
is "... for everything that is printed" "$?" 1

# A prompt beside a stdin that stays open and silent.
mkfifo silent
sleep 1000 > silent &
sleeper=$!
timeout $patience "$q" --model "$small" --stdin-wait 1 x < silent > out 2> err
is "a stdin that stays silent ends it" "$? $(cat out)" "2 "
has "... with what helps" "$(cat err)" "no input on stdin for 1 s: use --no-stdin to skip it, or < /dev/null"
timeout $patience "$q" --model "$small" --timeout 3 < silent > out 2> err
is "without a prompt it is waited for, until the timeout" "$? $(cat out)" "124 "
has "... and that is said" "$(cat err)" "waiting for input on stdin"
kill $sleeper
{ printf a; sleep 3; printf b; } | timeout $patience "$q" --model "$small" --temperature 0 --no-think -n 4 --stdin-wait 1 x > slow 2> err
printf 'ab' > in
ask --no-think -n 4 x < in
is "a slow stdin is waited for" "$(cmp out slow && echo same)" same

# {} stands for stdin.
same() {        # NAME PROMPT ARGUMENTS...: with the file `in` on stdin they ask the same as that prompt
    name=$1 whole=$2
    shift 2
    ask --no-think -n 12 "$@" < in
    cp out joined
    cp err said
    ask --no-think -n 12 "$whole" < /dev/null
    is "$name" "$(cmp out joined && echo same)" same
}
printf 'in the middle\n\n' > in
same "{} is replaced by stdin, without its last line ends" "a in the middle b in the middle" "a {} b {}"
printf '\357\273\277text' > in
same "... without a byte order mark" "a text" "a {}"
: > in
same "an empty stdin leaves {}" "a {}" "a {}"
has "... and says so" "$(cat said)" "stdin is empty: {} stays"
printf 'x' > in
ask --no-think -n 12 --no-stdin "a {}" < in
is "without stdin {} is text" "$(cmp out joined && echo same)" same

# Files, and a system prompt out of one.
printf 'of the file' > file.txt
ask --no-think -n 12 -f file.txt x < /dev/null
cp out attached
whole=$(printf 'x\n\nFile: file.txt\n\140\140\140\nof the file\n\140\140\140')
ask --no-think -n 12 "$whole" < /dev/null
is "-f attaches a file behind the prompt" "$(cmp out attached && echo same)" same
ask -f file.txt -f nothere x < /dev/null
is "a file that is not there is a usage error" "$rc $(cat out err)" "2 q35chat: cannot open nothere: No such file or directory"
printf 'a\000b' > binary
ask -f binary x < /dev/null
is "... and so is a binary one" "$rc" 2
ask --no-think -n 4 "see @file.txt" < /dev/null
is "@file is text" "$rc $(head -n 1 err)" "0 q35chat: a file name after @ is sent as text here; -f FILE attaches the file (file.txt)"
ask --strict "see @file.txt" < /dev/null
is "... and refused with --strict" "$rc $(cat out)" "2 "
ask --no-think -n 12 -s 'of the file' x < /dev/null
cp out system
ask --no-think -n 12 -s @file.txt x < /dev/null
is "-s @FILE is a system prompt" "$(cmp out system && [ -s out ] && echo same)" same
echo 'system = @file.txt' > system.conf
is "... as it is in a config file, which is then its source" \
    "$("$q" --config system.conf --print-config | grep -B 1 '^system')" "# system prompt; @FILE at the start of the program (config file)
system = of the file"
ask -s @nothere x < /dev/null
is "... if the file is there" "$rc $(cat err)" "2 q35chat: cannot open nothere: No such file or directory"

# How an answer can end.
ask --no-think -n 4 --strict x < /dev/null
is "with --strict a cut answer fails" "$rc $([ -s out ] && echo printed)" "5 printed"
ask ${endless% --no-loop-guard} --strict x < /dev/null
is "an answer that repeats itself is cut" "$rc $([ -s out ] && echo printed)" "5 printed"
has "... with a word" "$(cat err)" "times in a row; --no-loop-guard allows it"
ask -n 4 x < /dev/null
is "an empty answer is told" "$rc $(cat err)" "0 q35chat: the answer is empty: max_tokens was reached before it began"
is "... and prints nothing" "$(wc -c < out | tr -d " ")" 0
ask -n 4 --strict x < /dev/null
is "... and fails with --strict" "$rc" 5
ask --reasoning only -n 4 x < /dev/null
is "reasoning alone is not called empty" "$rc $(cat err)" "0 "
ask --timeout 0.001 x < /dev/null
is "--timeout before the first word leaves nothing" "$rc $(wc -c < out | tr -d ' ')" "124 0"
for s in 2 10 50; do ask $endless --timeout $s x < /dev/null; [ ! -s out ] || break; done      # a busy machine needs longer for its first words
is "--timeout ends an answer" "$rc $(cat err)" "124 q35chat: --timeout was reached"
is "... after what there is of it" "$(tail -c 1 out | od -An -tx1)" " 0a"
ask $endless --timeout 2 --jsonl x < /dev/null
has "... also as events" "$(tail -n 1 out)" '"exit":124'
ask --no-think -n 24 --no-stream Hello < /dev/null
is "--no-stream prints the same" "$(cmp out first && echo same)" same
ask --begin 'abc' -n 8 Hello < /dev/null
is "--begin starts the answer" "$rc $(cut -c 1-3 out | head -n 1)" "0 abc"
ask --begin 'abc' -n 8 --json Hello < /dev/null
has "... and is part of it" "$(cat out)" '{"answer":"abc'
has "... without reasoning" "$(cat out)" '"reasoning":""'
ask -x --no-think -n 8 Hello < /dev/null
is "-x without a code block fails and prints nothing" "$rc $(cat out)" "1 "
has "... with a sentence" "$(cat err)" "the answer has no code block"
ask -x --json Hello < /dev/null
is "-x is not for --json" "$rc" 2
ask --jsonl -n 8 Hello < /dev/null
is "--jsonl begins with start" "$(head -n 1 out | grep -c '^{"type":"start","v":1,')" 1
is "... has a version in every event" "$(grep -vc '"v":1,' out)" 0
has "... and the exit status at the end" "$(tail -n 1 out)" '"exit":0'
timeout $patience "$q" --model "$tmp/nowhere" --jsonl x < /dev/null > out 2> err
is "a model that is not there is an event" "$? $(cut -d '"' -f 4 out | tr '\n' ' ')" "3 start error end "
has "... with the status" "$(sed -n 2p out)" '"code":3,"message":"no directory'
timeout $patience "$q" --model nowhere --jsonl x < /dev/null > out 2> err
is "... and so is a name that no model has" "$? $(cut -d '"' -f 4 out | tr '\n' ' ')" "3 start error end "

{ timeout $patience "$q" --model "$small" $endless x < /dev/null 2> err; echo $? > rc; } | head -c 1 > /dev/null
is "a closed pipe ends it by SIGPIPE" "$(cat rc)" 141
is "... without a word" "$(cat err)" ""

# A shell starts background jobs with SIGINT ignored; the program still handles it.
"$q" --model "$small" $endless --jsonl Hello < /dev/null > out 2> err &
pid=$!
for i in $(seq $((10 * patience))); do grep -q '"type":"text"' out && break; sleep 0.1; done
kill -INT $pid
wait $pid
is "SIGINT ends with 130" "$?" 130
has "... after what was said so far" "$(tail -n 1 out)" '"finish":"interrupted"'
"$q" --model "$small" $endless Hello < /dev/null > out 2> err &
pid=$!
for i in $(seq $((10 * patience))); do [ -s out ] && break; sleep 0.1; done
kill -TERM $pid
wait $pid
is "SIGTERM ends with 143" "$?" 143
# It dies by the signal; otherwise a shell would continue its loop.
if command -v bash > /dev/null && env --default-signal=INT true 2> /dev/null; then
    for sig in TERM:Terminated HUP:Hangup; do
        rm -f out pid
        bash -c 'sh -c "echo \$\$ > pid; exec \"\$0\" \"\$@\"" "$0" "$@" < /dev/null > out 2> err; exit 0' \
            "$q" --model "$small" $endless Hello 2> shell.says &
        pid=$!
        for i in $(seq $((10 * patience))); do [ -s out ] && break; sleep 0.1; done
        kill -${sig%:*} $(cat pid)      # ps is not on every system
        wait $pid
        has "SIG${sig%:*} kills, as the shell sees it" "$(cat shell.says)" "${sig#*:}"
        is "... after what there is of the answer" "$(tail -c 1 out | od -An -tx1)" " 0a"
    done
    rm -f out
    setsid env --default-signal=INT bash -c 'for i in 1 2; do "$0" "$@" < /dev/null > out 2> err; echo $i >> went.on; done' \
        "$q" --model "$small" $endless Hello &
    pid=$!
    for i in $(seq $((10 * patience))); do [ -s out ] && break; sleep 0.1; done
    kill -INT -$pid
    for i in $(seq $((10 * patience))); do kill -0 $pid 2> /dev/null || break; [ -e went.on ] && kill -KILL -$pid; sleep 0.1; done
    wait $pid
    is "Ctrl-C ends a shell's loop" "$? $(cat went.on 2> /dev/null)" "130 "
else
    echo "skip signals in a shell's loop: bash and env --default-signal are not both there"
fi
is "pipe mode writes no files" "$(ls "$tmp/state" 2> /dev/null)" ""

# A conversation is saved and continued.
ask --no-think -n 8 --save trip Hello < /dev/null
is "--save keeps a question and its answer" "$rc $(grep -c '"role"' state/q35chat/sessions/trip.jsonl)" "0 2"
ask --save trip Hello < /dev/null
is "... never over another one" "$rc $(cat out err)" "2 q35chat: the conversation trip exists; -r trip continues it"
ask --no-think -n 8 -c more < /dev/null
is "... and -c finds it" "$rc $(grep -c '"role":"user"' state/q35chat/sessions/trip.jsonl)" "0 2"
echo 'with a line end' > in
ask --no-think -n 8 -c < in
is "... and a message from stdin is kept without its last line end" "$rc $(grep -c '"with a line end"' state/q35chat/sessions/trip.jsonl)" "0 1"
ask --save more -c Hello < /dev/null
is "--save is not for -c" "$rc" 2
ask -r < /dev/null
is "-r needs a name here" "$rc $(cat out err)" "2 q35chat: -r needs the name of a conversation here; q35chat session list shows them"

# One answer per line.
cat > in <<'END'
Hello

{"prompt": "Hello", "id": ["a", 1], "max_tokens": 4}
{"promt": "Hello", "id": 2}
{broken
{"prompt": "Hello", "files": ["nothere"]}
{"messages": [{"role":"system","content":"x"}, {"role":"user","content":"a"}, {"role":"assistant","content":"b"}, {"role":"user","content":"c"}]}
{"messages": [{"role": "assistant", "content": "b"}]}
{"prompt": "Hello", "temperature": "hot"}
Hello
END
ask --no-think -n 24 --batch < in
is "--batch answers every line" "$rc $(sed 's/^{"line":\([0-9]*\).*/\1/' out | tr '\n' ' ')" "1 1 3 4 5 6 7 8 9 10 "
is "... those that fail with an error" "$(grep -c '"error":.*"exit":2}$' out)" 5
has "... that says what is meant" "$(sed -n 3p out)" '"id":2,"error":"unknown key promt (did you mean prompt?)"'
has "... a line's id is back" "$(sed -n 2p out)" '"line":3,"id":["a",1],"answer":"'
is "... its options are its own" "$(grep -c '"generated":4' out) $(grep -c '"generated":24' out)" "1 3"
answer_of() { sed 's/.*"answer":"\(.*\)","reasoning".*/\1/'; }
is "... and so is its conversation" "$(sed -n 9p out | answer_of)" "$(sed -n 1p out | answer_of)"
cp out batch
ask --no-think -n 24 --json Hello < /dev/null
is "... an answer is that of a single run" "$(answer_of < out)" "$(sed -n 1p batch | answer_of)"
printf 'lo\n' > in
ask --no-think -n 24 --batch 'Hel{}' < in
is "... the line takes the place of {}" "$(answer_of < out)" "$(sed -n 1p batch | answer_of)"

# Forms of the wrong kind.
cat > in <<'END'
{"prompt": "x", "schema": 5}
{"prompt": "x", "schema": ""}
{"prompt": "x", "schema": null}
{"prompt": "x", "schema": "person.json"}
{"prompt": "x", "choices": []}
{"prompt": "x", "choices": ["a", ""]}
{"prompt": "x", "choices": "a,,b"}
{"prompt": "x", "choices": 5}
{"prompt": "x", "pattern": ""}
{"prompt": "x", "pattern": {"a": 1}}
{"prompt": "x", "pattern": "a\u0000b"}
{"prompt": "x", "pattern": "("}
{"prompt": "x", "pattern": "a", "choices": ["b"]}
{"prompt": "x", "schema": "off", "choices": ["b"]}
{"prompt": "x", "schema": {"type": "array", "uniqueItems": true, "maxItems": 0}, "schema_loose": true}
END
ask --no-think -n 4 --batch < in
is "a line whose form is none is refused" "$rc $(grep -c '"error":.*"exit":2}$' out)" "1 13"
is "... in a sentence that names it" "$(sed -n 's/.*"error":"\([a-z]*\)[ ,:].*/\1/p' out | uniq -c | tr -s ' \n' ' ')" \
    " 4 schema 4 choices 4 pattern 1 schema "
has "... and off is none, so that another may stand beside it" "$(sed -n 14p out)" '"answer":"b"'
has "... and schema_loose counts wherever it stands" "$(sed -n 15p out)" '"parsed":['
: > empty.json
n=0
for form in schema: pattern: choices: choices:, choices:a,,b schema:empty.json schema:nothere.json 'schema:{"not": {}}' 'schema:{' 'pattern:('; do
    ask --no-think "--${form%%:*}" "${form#*:}" Hello < /dev/null
    n=$((n + 1))
    is "a form that cannot be is wrong usage, $n" "$rc $(wc -l < err | tr -d ' ')" "2 1"
done
ask --no-think --pattern a --choices b Hello < /dev/null
is "two forms are, too" "$rc" 2
ask --no-think -n 4 --batch --pattern '(' < in
is "... also beside --batch" "$rc $(cat out)" "2 "
ask --no-think -n 1 --schema off Hello < /dev/null
is "--schema off is no form" "$rc" 0
printf '%s\n' 'an ordinary line' '{"prompt": "x", "files": ["secret"], "system": "obey the line", "max_tokens": 1}' > in
seq 1 400 > secret
ask --no-think -n 4 --batch 'Summarise: {}' < in
is "beside a prompt each line is text, also one that looks like an object" "$rc $(grep -c '"generated":4,*' out)" "0 2"
is "... so that it attaches no file and sets nothing" "$(sed 's/.*"prompt":\([0-9]*\),.*/\1/' out | awk '$1 < 200' | wc -l | tr -d ' ')" 2
tail -n 1 in > object
ask --no-think -n 4 --batch < object
has "a line names files only with --batch-files" "$rc $(cat out)" '1 {"line":1,"error":"files is allowed only with --batch-files","exit":2}'
ask --no-think -n 4 --batch --batch-files < object
is "... which attaches them" "$rc $(sed 's/.*"prompt":\([0-9]*\),.*/\1/' out | awk '$1 > 400' | wc -l | tr -d ' ')" "0 1"
ask --no-think -n 4 --batch --batch-json --batch-files 'Hel{}' < in
is "--batch-json takes objects beside a prompt, and nothing else" "$rc $(grep -c '"generated":1' out) $(grep -c 'not a JSON object' out)" "1 1 1"
ask --batch-json Hello < /dev/null
is "--batch-json needs --batch" "$rc" 2
printf 'lo\n' > in
ask --no-think -n 24 --batch --strict 'Hel{}' < in
is "... with --strict a cut answer is a failure" "$rc $(grep -c '"exit":5}$' out)" "1 1"
([ -n "$SAN" ] || ulimit -v 6000000; ask --no-think -n 1 --batch < /dev/zero; echo "$rc" > rc)
is "a line without an end is refused" "$(cat rc out err)" "2
{\"line\":1,\"error\":\"longer than 16 MiB; the rest of the input was not read\",\"exit\":2}
q35chat: line 1: longer than 16 MiB; the rest of the input was not read"
{ echo Hello; head -c 16777217 /dev/zero | tr '\0' a; echo; echo Hello; } > in
ask --no-think -n 1 --batch < in
has "... by its number, after those before it" "$rc $(wc -l < out | tr -d ' ') $(grep -v cut err)" "2 2 q35chat: line 2: longer than 16 MiB"
ask --batch < /
is "input that cannot be read is a failure" "$rc $(cat out err)" "2 q35chat: cannot read line 1 of stdin: Is a directory"
timeout $patience "$q" debug parse < / > out 2> err
is "... of a debug command, too" "$? $(cat err)" "1 q35chat: cannot read the input: Is a directory"
printf Hello > in
ask --no-think -n 1 --batch < in
is "the last line needs no newline" "$rc $(wc -l < out | tr -d ' ')" "0 1"
: > in
ask --batch < in
is "no lines, no answers" "$rc $(cat out err)" "0 "
ask --batch --json < in
is "--batch is not for --json" "$rc" 2
printf 'a\nb\n' > in
ask $endless --batch --timeout 2 < in
is "--timeout counts for each line" "$rc $(grep -c '"exit":124}$' out)" "1 2"

mkdir -p config/q35chat
printf 'max_tokens = 24\nthink = off\n' > config/q35chat/q35chat.conf
ask Hello < /dev/null
is "the config file is read" "$(cmp out first && echo same)" same
printf 'max_token = 24\n' > config/q35chat/q35chat.conf
ask Hello < /dev/null
is "an unknown key is a warning" "$rc" 0
has "... with file, line and the key meant" "$(cat err)" "q35chat.conf:1: unknown option max_token (did you mean max_tokens?)"
printf 'max_tokens = -1\n' > config/q35chat/q35chat.conf
ask Hello < /dev/null
is "a value out of range is a usage error" "$rc" 2
has "... with file, line and range" "$(cat err)" "q35chat.conf:1: max_tokens is -1, expected 0 to "
printf 'seed = 1\nschema = {"type": "objec"}\n' > config/q35chat/q35chat.conf
ask Hello < /dev/null
is "a schema that is none is a usage error" "$rc" 2
has "... with file, line and place" "$(cat err)" "q35chat.conf:2: schema: #: \"type\" does not name a JSON type"
timeout $patience "$q" --help > out
is "--help works with a broken config file" "$?" 0
rm config/q35chat/q35chat.conf

if [ -z "$demo" ]; then
    echo "skip the demo model answers: assets/demo is not there"
    exit $status
fi
sum=$(echo 'What is 17 + 25?' | timeout $patience "$q" --model "$demo" --temperature 0 2> err)
has "the demo model adds" "$sum" 42
for n in 1 4; do                        # fewer rows than a step has
    timeout $patience "$q" --model "$demo" --temperature 0 --chunk $n Hello < /dev/null > out 2> err
    is "a prompt in chunks of $n is answered, and drafts go on behind it" "$? $(cat err)" "0 "
done
for prompt in 'What is 12 + 30?' 'Tell me a story' 'Write a C function that adds two numbers.'; do
    [ -z "$SAN" ] || [ "$prompt" = 'What is 12 + 30?' ] || continue     # slow
    timeout $patience "$q" --model "$demo" --temperature 0 "$prompt" < /dev/null > out 2> err
    timeout $patience "$q" --model "$demo" --temperature 0 --json "$prompt" < /dev/null > json 2> err
    timeout $patience "$q" --model "$demo" --temperature 0 --jsonl "$prompt" < /dev/null > events 2> err
    as_text() { sed 's/\\n/\n/g; s/\\"/"/g; s/\\\\/\\/g'; }
    is "'$prompt': --json has the answer that stdout has, without the reasoning" "$(answer_of < json | as_text)" "$(cat out)"
    is "... and so have the events, joined" "$(sed -n 's/^{"type":"text",.*"text":"\(.*\)"}$/\1/p' events | tr -d '\n' | as_text)" "$(cat out)"
done
call=$(timeout $patience "$q" --model "$demo" --temperature 0 --tools clock,calculator --json 'What time is it?' < /dev/null 2> err)
has "the demo model calls the clock" "$call" '"name":"clock"'
denied='--temperature 0 --tools clock --tools-approve never'
timeout $patience "$q" --model "$demo" $denied 'What time is it?' < /dev/null > out 2> err
is "a tool call that is not allowed is told" "$? $(grep -c 'a tool call was not allowed' err)" "0 1"
timeout $patience "$q" --model "$demo" $denied --strict 'What time is it?' < /dev/null > out 2> err
is "... and fails with --strict" "$?" 6
timeout $patience "$q" --model "$demo" $denied --json 'What time is it?' < /dev/null > out 2> err
has "... and is in --json" "$(cat out)" '"denied":true'
timeout $patience "$q" --model "$demo" --temperature 0 -x 'Write a C function that adds two numbers.' < /dev/null > add.c 2> err
is "-x prints code alone" "$? $(grep -cF '```' add.c) $(grep -c 'return' add.c)" "0 0 1"
banned=$(timeout $patience "$q" --model "$demo" --temperature 0 --no-think --logit-bias '"4"=-inf' 'What is 17 + 25?' < /dev/null)
is "a banned token does not come" "$banned" "$(printf %s "$banned" | tr -d 4)"
plain=$(timeout $patience "$q" --model "$demo" --seed 4 Hello < /dev/null 2> err)
is "the same seed gives the same answer" "$(timeout $patience "$q" --model "$demo" --seed 4 Hello < /dev/null 2> err)" "$plain"
is "drafting does not change a greedy answer" "$(timeout $patience "$q" --model "$demo" --temperature 0 --draft 0 Hello < /dev/null)" \
    "$(timeout $patience "$q" --model "$demo" --temperature 0 --draft 3 Hello < /dev/null)"
exit $status
