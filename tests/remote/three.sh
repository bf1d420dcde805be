#!/bin/sh
# One list of conversations, held with four responders: the engine in the process; that of another q35chat, attached to it; our own server, as any
# client sees it; and a replayed server of another make.  Each row: a name, who it is for (all, own: all but the replayed one, tokens: engine and
# attached), the options (@: whose run it is), and what holds for the answer's JSON, `a`, in Python; said(a) is its reasoning and its text.  The
# first three must give the same words for each row, the first two the same figures as well.
. tests/remote/serve.inc
replay=
trap '[ -z "$replay" ] || kill $replay 2> /dev/null; end; rm -rf "$tmp"' EXIT
python3 tests/remote/server.py "$tmp" 2> "$tmp/replay.log" &
replay=$!
for i in $(seq $((10 * patience))); do [ -s "$tmp/port" ] && break; sleep 0.1; done
begin "$small"

cat > "$tmp/list" <<'E2'
an answer|all|--temperature 0 hello|said(a) and a["finish"] in ("stop", "length") and a["model"]
figures|all|--temperature 0 hello|a["tokens"]["generated"] > 0 and a["prefill_ms"] >= 0 and a["wall_ms"] > 0 and a["rounds"] >= 1
a system prompt|all|--temperature 0 --system Brief. hello|said(a)
a seed|all|--temperature 0.8 --top-p 0.9 --top-k 20 --min-p 0.01 --seed 3 hello|said(a) and a["seed"] == 3
no reasoning|own|--temperature 0 --no-think hello|not a["reasoning"]
a limit|own|--temperature 0 --no-think -n 5 hello|a["finish"] == "length" and a["tokens"]["generated"] == 5
a bias|own|--temperature 0 --no-think --logit-bias 17=-inf --logit-bias 18=2.5 hello|said(a)
a budget of reasoning|own|--temperature 0 --think-budget 3 hello|len(a["reasoning"]) < 40
penalties|own|--temperature 0 --no-think --presence-penalty 1.5 --repetition-penalty 1.2 hello|said(a)
a beginning|own|--temperature 0 --begin Well, hello|a["answer"].startswith("Well,") and not a["reasoning"]
sampled, with a beginning|tokens|--temperature 0.9 --seed 7 --begin So hello|a["answer"].startswith("So")
a bias by text|own|--temperature 0 --no-think --logit-bias k=-inf hello|"k" not in a["answer"]
a conversation begins|all|--temperature 0 --save talk-@ hello|said(a)
... goes on|all|--temperature 0 -r talk-@ again|said(a)
... and once more|all|--temperature 0 -r talk-@ still|said(a)
E2
words() { sed 's/"finish".*//' "$tmp/$1"; }
# How much was cached depends on what went before.
figures() { words $1; python3 -c 'import json, sys; a = json.load(open(sys.argv[1])); print(a["finish"], a["tokens"]["prompt"], a["tokens"]["generated"], a["context"])' "$tmp/$1"; }
for who in engine attached server replay; do
    case $who in
    engine) where="--no-attach --model $small -n 12" ;;
    attached) where="--model $small -n 12" ;;
    server) where="--endpoint unix:$socket -n 12" ;;
    replay) where="--endpoint http://127.0.0.1:$(cat "$tmp/port")/sglang" ;;
    esac
    row=0
    while IFS='|' read -r name whose options holds; do
        row=$((row + 1))
        case $whose:$who in own:replay | tokens:replay | tokens:server) echo "# $who: $name is left out"; continue ;; esac
        options=$(echo "$options" | sed "s/@/$who/")
        case "$who $options" in *'-r '* | *--save*) ;; attached*) options="--save kept-$row $options" ;; esac      # else no tokens are wanted
        timeout $patience "$q" $where --no-stdin --json $options > "$tmp/$who.$row" 2> "$tmp/err"
        is "$who: $name" "$? $(python3 -c 'import json, sys; said = lambda a: a["answer"] + a["reasoning"]; a = json.load(open(sys.argv[1])); print(bool(eval(sys.argv[2])))' "$tmp/$who.$row" "$holds" 2>&1)" "0 True"
        case $who in
        server) is "$who: ... in the words of the engine" "$(words $who.$row)" "$(words engine.$row)" ;;
        attached) is "$who: ... in the words and with the figures of the engine" "$(figures $who.$row)" "$(figures engine.$row)" ;;
        esac
    done < "$tmp/list"
    is "$who: the conversation has three messages and their answers" \
        "$("$q" session export "talk-$who" json 2> /dev/null | python3 -c 'import json, sys; print(*[m["role"][0] for m in json.load(sys.stdin)["messages"]])' 2>&1)" "u a u a u a"
done

# Begun here, continued there and back: the words are those of a conversation that stayed, and nothing is computed again where it went on.
turn() { timeout $patience "$q" --model "$small" -n 12 --no-stdin --json --temperature 0 --verbose "$@" > "$tmp/turn" 2> "$tmp/err"; }
turn --no-attach --save wanders hello
turn -r wanders again
is "a conversation begun here goes on attached" "$(words turn)" "$(row=$(grep -n 'goes on|' "$tmp/list" | cut -d : -f 1); words engine.$row)"
has "... attached indeed" "$(cat "$tmp/err")" "attached to the model that another q35chat has loaded"
turn -r wanders still
is "... and on" "$(words turn)" "$(row=$(grep -n 'once more|' "$tmp/list" | cut -d : -f 1); words engine.$row)"
is "... where all but what is new was there" "$(python3 -c 'import json, sys; t = json.load(open(sys.argv[1]))["tokens"]; print(0 < t["prompt"] - t["cached"] < 40, t["cached"] > 0)' "$tmp/turn")" "True True"
turn --no-attach -r wanders and here
[ -s "$tmp/turn" ] && lacks "... and back, from the tokens that were said there" "$(cat "$tmp/err")" "perhaps in another way"
exit $status
