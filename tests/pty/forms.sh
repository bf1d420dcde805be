#!/bin/sh
# Answers in a form in chats: /set schema, what shows that there is one, indented JSON, the conversation keeps it.
. tests/pty/common.inc
. tests/pty/terminal.inc
. tests/pty/wire.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
echo '{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"],
       "additionalProperties": false}' > person.json
echo '{"not": {"type": "object"}, "type": "object"}' > never.json

at 80x24 --no-think --tools none --no-stats --save otto << END
see the model is there: ready
type /set schema never.json\\r
see a schema that no answer can have is refused: no text satisfies the schema
type /set schema pers\\t\\r
see Tab completes the file of a schema, and the status line has it: SCHEMA
type Otto is 7\\r
sh it is answered: eval "\$answered 1"
see ... to its end: ready
see the answer is JSON, a member a line:   "name": "Otto",
see ... and the next one:   "age": 7
type /set choices yes,no\\r
see choices take its place: CHOICES
gone ... as the form: SCHEMA
type Is it cold?\\r
sh they are answered: eval "\$answered 2"
see ... to the end: ready
type /set choices off\\r
gone off ends it: CHOICES
type /set schema person.json\\r
see a schema again: SCHEMA
type Anna is 9\\r
sh ... is answered: eval "\$answered 3"
see ... to its end, too: ready
type \\004
end Ctrl-D ends: 0
END
has "the conversation has the form" "$(cat "$sessions"/otto.jsonl)" '{"form":"schema {'
is "... as often as it changed" "$(grep -c '^{"form":' "$sessions"/otto.jsonl)" 3
is "an answer was one of the choices" "$(grep -cE '"content":"(yes|no)"' "$sessions"/otto.jsonl)" 1
at 40x12 --no-think --tools none --no-stats -r otto << END
see it is there again on a small screen: SCHEMA
see ... where the answer is indented, too:   "age":
type \\004
end Ctrl-D ends it: 0
END
at 80x24 --no-think --tools none --no-stats << END
see another conversation: ready
gone ... has no form: SCHEMA
type \\004
end Ctrl-D ends that: 0
END

model=$demo
begin --no-think --tools none --schema person.json --max-tokens 60
seen "line mode: the prompt" "> "
type 'Otto is 7\r'
seen "the answer is there as it comes" '{"name"'
seen "... with its figures" " ctx "
type '/set schema pers\t\r'
seen "Tab completes the file of a schema" 'schema = {'
type '/set schema off\r'
seen "/set schema off" "schema is not set"
type '/set pattern [A-C]{3}\r'
seen "/set pattern" "pattern = [A-C]{3}"
type 'x\r'
seen "... is answered" " ctx "
type '/set pattern (\r'
seen "a pattern that is none is refused" "pattern"
type '\004'
seen "Ctrl-D ends" "status 0"
end

# A pipe on a terminal, and one that is none.
script -qec "$q --model $demo --no-attach --no-stdin --no-think --temperature 0 --color never --schema person.json 'Otto is 7'" /dev/null \
    < /dev/null 2>&1 | tr -d '\r' | sed 's/\x1b\[[0-9;]*m//g' > out
is "a pipe on a terminal prints it indented" "$(sed -n 2p out)" '  "name": "Otto",'
"$q" --model "$demo" --no-attach --no-stdin --no-think --temperature 0 --schema person.json 'Otto is 7' > out 2> err
is "... one that is none as it came" "$(cat out)" '{"name": "Otto", "age": 7}'
"$q" --model "$demo" --no-attach --no-stdin --schema nothere.json x > out 2> err
is "a file that is not there is told with its option" "$? $(cat err)" "2 q35chat: --schema: cannot open nothere.json: No such file or directory"
timeout --preserve-status -s INT 1 "$q" --model "$demo" --no-attach --no-stdin --no-think --json --temperature 0 --schema \
    '{"type": "object", "properties": {"x": {"type": "string", "minLength": 100000}}, "required": ["x"]}' 'x' > out 2> err
is "Ctrl-C cuts an answer: status, end and no value" \
    "$? $(python3 -c 'import json; a = json.load(open("out")); print(a["finish"], "parsed" in a)')" "130 interrupted False"
exit $status
