#!/bin/sh
# One list of conversations, held with three responders: the engine in the process, our own server over its socket, and a replayed server of
# another make.  Each row: a name, who it is for, the options (@: whose run it is), and what holds for the answer's JSON, `a`, in Python; said(a) is
# its reasoning and its text.  The
# first two must give the same words for each row.
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
a conversation begins|all|--temperature 0 --save talk-@ hello|said(a)
... goes on|all|--temperature 0 -r talk-@ again|said(a)
... and once more|all|--temperature 0 -r talk-@ still|said(a)
E2
for who in engine server replay; do
    case $who in
    engine) where="--no-attach --model $small -n 12" ;;
    server) where="--endpoint unix:$socket -n 12" ;;
    replay) where="--endpoint http://127.0.0.1:$(cat "$tmp/port")/sglang" ;;
    esac
    row=0
    while IFS='|' read -r name whose options holds; do
        row=$((row + 1))
        [ "$whose" = all ] || [ $who != replay ] || continue
        options=$(echo "$options" | sed "s/@/$who/")
        timeout $patience "$q" $where --no-stdin --json $options > "$tmp/$who.$row" 2> "$tmp/err"
        is "$who: $name" "$? $(python3 -c 'import json, sys; said = lambda a: a["answer"] + a["reasoning"]; a = json.load(open(sys.argv[1])); print(bool(eval(sys.argv[2])))' "$tmp/$who.$row" "$holds" 2>&1)" "0 True"
        [ $who != server ] || is "$who: ... in the words of the engine" "$(sed 's/"finish".*//' "$tmp/server.$row")" "$(sed 's/"finish".*//' "$tmp/engine.$row")"
    done < "$tmp/list"
    is "$who: the conversation has three messages and their answers" \
        "$("$q" session export "talk-$who" json 2> /dev/null | python3 -c 'import json, sys; print(*[m["role"][0] for m in json.load(sys.stdin)["messages"]])' 2>&1)" "u a u a u a"
done
exit $status
