#!/bin/sh
# Sub-commands: each has help; unknown ones are refused and never taken for a prompt.
. tests/pty/common.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

run() { timeout $patience "$q" "$@" > out 2> err < /dev/null; rc=$?; }

run help
is "help lists the groups" "$rc $(grep -c '^  q35chat [a-z]* COMMAND' out) $(cat err)" "0 $(grep -c '^GROUP(' "$root/config/subcommands.def") "
for group in $(sed -n 's/^GROUP("\([a-z]*\)".*/\1/p' "$root/config/subcommands.def"); do
    [ $group != serve ] || continue     # alone it serves
    run "$group"
    is "$group alone tells how it is used, on stderr" "$rc $(grep -c '^Usage' err) $(cat out)" "2 1 "
    for help in --help -h help; do
        run "$group" $help
        is "$group $help tells it, on stdout" "$rc $(grep -c '^Usage' out) $(cat err)" "0 1 "
    done
    run help "$group"
    is "help $group tells the same" "$rc $(grep -c '^Usage' out)" "0 1"
    for name in $(sed -n "/^  [a-z]/s/^  \([a-z-]*\).*/\1/p" out); do
        run "$group" "$name" --help
        is "$group $name --help" "$rc $(sed -n 1p out | grep -c "^Usage: q35chat $group $name") $(cat err)" "0 1 "
        run help "$group" "$name"
        is "help $group $name" "$rc $(sed -n 1p out | grep -c "^Usage: q35chat $group $name")" "0 1"
        run "$group" "$name" --no-such-option
        is "$group $name refuses an option that it does not have" "$rc $(grep -c 'unknown option --no-such-option' err) $(cat out)" "2 1 "
    done
    run "$group" nosuchword
    is "$group nosuchword is no prompt" "$rc $(sed -n 1p err)" "2 q35chat: unknown command $group nosuchword; q35chat $group lists them"
done

refused() {     # what stderr must say; the arguments
    says=$1
    shift
    run "$@"
    is "'$*' is refused" "$rc $(cat out)" "2 "
    has "... with a sentence" "$(cat err)" "$says"
}
refused "unknown command session lst (did you mean list?)" session lst
refused "unknown command sesion (did you mean session?)" help sesion
refused "unknown command session exprt (did you mean export?)" help session exprt
refused "session show: needs NAME" session show
refused "session show: expects NAME, not 'b' as well" session show a b
refused "bench sweep: expects no words, found 'more'" bench sweep more
refused "bench sweep: --rows is 99, expected 1 to 8" bench sweep --rows 99
refused "bench sweep: --backend is 'tpu', expected one of cpu|cuda" bench sweep --backend tpu
refused "bench sweep: needs one of --synthetic NAME and --model DIR" bench sweep
refused "--out needs a value: FILE" bench sweep --out
refused "debug logits: needs --out FILE" debug logits --model x
refused "'model' is a sub-command, which goes before all options" --no-think model trains
refused "--json and --jsonl cannot be combined" --json --jsonl x
refused "--model is empty, expected a directory or a name" --model "" x
refused "-f is empty, expected the path of a file" -f "" x
refused "--think-budget is 'much', expected a whole number, 32k also" --think-budget much x
refused "\"nosuch\" is not a known name; expected 122b, 35b or ORG/NAME[@REVISION]" model get nosuch
refused "\"nosuch\" is not a known name" model get demo/none nosuch
refused "\"a/b/c\" is not the name of a repository; expected ORG/NAME" model get a/b/c
refused "\"../x\" is not a revision; expected a branch, a tag or a commit" model get a/b@../x

run sessions
is "sessions alone is session list" "$rc $(cat out err)" "0 q35chat: no saved conversation yet"
run models
has "models alone is model list" "$rc $(cat out)" "0 "
run models --json
is "... with its options" "$rc $(head -c 1 out) $(cat err)" "0 { "
run sessions show nothere
is "sessions COMMAND is session COMMAND" "$rc $(grep -c nothere err)" "1 1"

# A slip in a sub-command is a prompt, which nobody may have meant.
meant() {       # the command line that was meant; the words
    says=$1
    shift
    run --no-attach --model nosuch "$@"
    lacks "after an option '$*' is not asked about" "$(cat err)" "did you mean"
    Q35CHAT_MODEL=nosuch run "$@"
    is "'$*' is asked as a prompt, after a line" "$(sed -n 1p err)" "q35chat: asked as a prompt; did you mean $says?"
}
meant "q35chat session list" sesion list
meant "q35chat session list" list sessions
meant "q35chat model list" modles list
meant "q35chat session show" sessoin show trip
meant "q35chat session list or q35chat model list" list
meant "q35chat session" sesions
meant "q35chat -m MODEL" run
meant "q35chat model get" pull 35b
meant "q35chat --version" version
for words in hello 'tell me' 'run a test' 'list some models' 'a session' 'help me'; do
    Q35CHAT_MODEL=nosuch run $words
    lacks "'$words' is a prompt" "$(cat err)" "did you mean"
done
Q35CHAT_MODEL=nosuch run 'sesion list'
lacks "... and so is one word with a blank" "$(cat err)" "did you mean"
Q35CHAT_MODEL=nosuch run -- sesion list
lacks "... and what follows --" "$(cat err)" "did you mean"
"$BUILD/tests/pty/wire" -t $patience 80x24 env Q35CHAT_MODEL=nosuch "$q" sesion list << END || status=1
see on a terminal it is asked: did you mean q35chat session list?
see ... before anything is loaded: Ask the model? [y/N]
type n\\r
end ... and no is the end: 2
END
"$BUILD/tests/pty/wire" -t $patience 80x24 env Q35CHAT_MODEL=nosuch "$q" sesion list << END || status=1
see ... or yes: Ask the model? [y/N]
type y\\r
end ... asks the model, which is not there: 3
END

for command in inspect verify; do
    run model $command demo
    is "model $command accepts a name that model list shows" "$rc $(cat err)" "0 "
    run model $command nosuch
    is "... and says where the names are" "$rc $(cat err)" \
        "1 q35chat: nosuch is neither a directory nor a model on this machine, which \`q35chat model list\` lists"
done
run bench five --model nosuch
is "a measurement of a model that is not here fails" "$rc $(cat out)" "1 "
has "... with a sentence" "$(cat err)" "nosuch is neither a directory nor a model on this machine"
run bench load --model nosuch
is "... one that takes no model alone, too" "$rc $(cat out)" "1 "
run serve start -m nosuch
is "a server without its model ends as a chat does" "$rc $(cat out)" "3 "
mkdir -p "$XDG_CONFIG_HOME/q35chat"
echo 'nosuch = 1' > "$XDG_CONFIG_HOME/q35chat/q35chat.conf"
run serve start --model nosuch
has "... and reports an unknown key of the config file, as a chat does" "$(cat err)" "q35chat.conf:1: unknown option nosuch; ignored"
rm "$XDG_CONFIG_HOME/q35chat/q35chat.conf"
run model get --json nosuch
is "... which --json says as well" "$rc $(grep -c '"ok":false.*is not a known name' out)" "2 1"
HF_HUB_OFFLINE=1 run model get demo/none
is "a repository that is not there" "$rc $(grep -c 'HF_HUB_OFFLINE is set' err)" "1 1"
run session show nosuchname
is "a conversation that is not there" "$rc $(cat err)" \
    "1 q35chat: no conversation nosuchname; /sessions and q35chat session list show the names"

run bench load --model "$small" --threads 2 --out "$tmp/a report"
is "a report tells the command without folders and files" "$rc $(sed -n 's/^command *//p' out)" \
    "0 q35chat bench load --model DIR --threads 2 --out FILE"
is "... and in the file, too" "$(grep -c "bench load --model DIR --threads 2 --out FILE" "$tmp/a report") $(grep -cF "$small" "$tmp/a report")" "1 0"

ask() { timeout $patience "$q" --model "$small" --temperature 0 --no-think -n 8 "$@" > out 2> err < /dev/null; rc=$?; }
ask -- model trains
is "behind -- such a word begins a prompt" "$rc $([ -s out ] && echo answered)" "0 answered"
cp out behind
ask "model trains"
is "... and within one argument" "$rc $(cmp out behind && echo same)" "0 same"
ask trains, model
is "... and further on" "$rc $([ -s out ] && echo answered)" "0 answered"
exit $status
