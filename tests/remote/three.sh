#!/bin/sh
# One list of conversations, held with five responders: the engine in the process; that of another q35chat, attached to it; the same by its socket as
# an endpoint; our own server, as any client sees it; and a replayed server of another make.  Each row: a name, who it is for (all, own: all but the
# replayed one, tokens: the first three), the options (@: whose run it is), and what holds for the answer's JSON, `a`, in Python; said(a) is its
# reasoning and its text.  The first four must give the same words for each row, the first three the same figures as well.
. tests/remote/serve.inc
replay=
trap '[ -z "$replay" ] || kill $replay 2> /dev/null; end; rm -rf "$tmp"' EXIT
python3 tests/remote/server.py "$tmp" 2> "$tmp/replay.log" &
replay=$!
for i in $(seq $((10 * patience))); do [ -s "$tmp/port" ] && break; sleep 0.1; done
begin "$small"

list=tests/remote/talks.txt
words() { sed 's/"finish".*//' "$tmp/$1"; }
# How much was cached depends on what went before.
figures() {
    words $1
    python3 -c 'import json, sys
a = json.load(open(sys.argv[1]))
print(a["finish"], a["tokens"]["prompt"], a["tokens"]["generated"], a["context"])' "$tmp/$1"
}
for who in engine attached socket server replay; do
    case $who in
    engine) where="--no-attach --model $small -n 12" ;;
    attached) where="--model $small -n 12" ;;
    server) where="--endpoint unix:$socket --dialect q35chat -n 12" ;;
    socket) where="--endpoint unix:$socket -n 12" ;;
    replay) where="--endpoint http://127.0.0.1:$(cat "$tmp/port")/sglang" ;;
    esac
    row=0
    while IFS='|' read -r name whose options holds; do
        row=$((row + 1))
        case $whose:$who in own:replay | own:socket | tokens:replay | tokens:server) echo "# $who: $name is left out"; continue ;; esac
        options=$(echo "$options" | sed "s/@/$who/")
        # Without --save or -r nobody wants the tokens.
        case "$who $options" in *'-r '* | *--save*) ;; attached* | socket*) options="--save kept-$who-$row $options" ;; esac
        timeout $patience "$q" $where --no-stdin --json $options > "$tmp/$who.$row" 2> "$tmp/err"
        is "$who: $name" "$? $(python3 -c \
            'import json, sys; said = lambda a: a["answer"] + a["reasoning"]; a = json.load(open(sys.argv[1])); print(bool(eval(sys.argv[2])))' \
            "$tmp/$who.$row" "$holds" 2>&1)" "0 True"
        case $who in
        server) is "$who: ... in the words of the engine" "$(words $who.$row)" "$(words engine.$row)" ;;
        attached | socket) is "$who: ... in the words and with the figures of the engine" "$(figures $who.$row)" "$(figures engine.$row)" ;;
        esac
    done < $list
    is "$who: the conversation has three messages and their answers" \
        "$("$q" session export "talk-$who" json 2> /dev/null |
            python3 -c 'import json, sys; print(*[m["role"][0] for m in json.load(sys.stdin)["messages"]])' 2>&1)" "u a u a u a"
done

# Begun here, continued there and back: the words are those of a conversation that stayed, and nothing is computed again where it went on.
turn() { timeout $patience "$q" --model "$small" -n 12 --no-stdin --json --temperature 0 --verbose "$@" > "$tmp/turn" 2> "$tmp/err"; }
turn --no-attach --save wanders hello
turn -r wanders again
is "a conversation begun here goes on attached" "$(words turn)" "$(row=$(grep -n 'goes on|' $list | cut -d : -f 1); words engine.$row)"
has "... attached indeed" "$(cat "$tmp/err")" "attached to the model that another q35chat has loaded"
turn -r wanders still
is "... and on" "$(words turn)" "$(row=$(grep -n 'once more|' $list | cut -d : -f 1); words engine.$row)"
is "... where all but what is new was there" \
    "$(python3 -c 'import json, sys; t = json.load(open(sys.argv[1]))["tokens"]; print(0 < t["prompt"] - t["cached"] < 40, t["cached"] > 0)' \
    "$tmp/turn")" "True True"
turn --no-attach -r wanders and here
[ -s "$tmp/turn" ] && lacks "... and back, from the tokens that were said there" "$(cat "$tmp/err")" "perhaps in another way"
exit $status
