#!/bin/sh
# The completion scripts, run in the shells; zsh and fish only if they are installed.
. tests/pty/common.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
mkdir -p "$XDG_STATE_HOME/q35chat/sessions" models/one models/two bin
ln -s "$q" bin/q35chat
PATH=$tmp/bin:$PATH
for name in trip 'a $(touch ran) b'; do
    printf '{"q35chat":1,"model":"m"}\n{"role":"user","content":"Hello"}\n' > "$XDG_STATE_HOME/q35chat/sessions/$name.jsonl"
done

mkdir -p "$XDG_STATE_HOME/q35chat/trash" "$XDG_DATA_HOME/q35chat/models"
ln -s "$small" "$XDG_DATA_HOME/q35chat/models/own-model"
cp "$XDG_STATE_HOME/q35chat/sessions/trip.jsonl" "$XDG_STATE_HOME/q35chat/trash/gone.jsonl"

mkdir -p "$XDG_CONFIG_HOME/q35chat"
printf '[endpoint cluster]\nurl = http://10.0.0.1:8000\n[endpoint home]\nurl = http://10.0.0.2:8000\n' > "$XDG_CONFIG_HOME/q35chat/q35chat.conf"

q35chat session list --names > out 2> err
is "names are listed, a line each" "$(sort out | tr '\n' ,)" 'a $(touch ran) b,trip,'
is "... of those in the trash, too" "$(q35chat session restore --names)" gone
is "... of models" "$(q35chat model list --names | grep own)" own-model
for shell in bash zsh fish; do
    q35chat --print-completions $shell > $shell.script
    is "there is a script for $shell" "$? $(grep -c "print-completions $shell" $shell.script)" "0 1"
done

cat > ask.bash <<'EOF'
source ./bash.script
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_q35chat
printf '%s ' "${COMPREPLY[@]}"
EOF
asks() { answer=$(bash --norc ask.bash q35chat "$@" 2> err); }
if command -v bash > /dev/null; then
    asks ses; is "bash completes a subcommand" "$answer" "session "
    asks session e; is "... and its words" "$answer" "export "
    asks sessions r; is "... after another name of the group" "$answer" "rm restore "
    asks help serve cl; is "... and after help" "$answer" "clients "
    asks serve clients co; is "... programs that use the server" "$answer" "codex "
    asks serve --li; is "... options of serve start after serve alone" "$answer" "--listen "
    asks model get 1; is "... repositories" "$answer" "122b "
    asks bench s; is "... from the table of measurements" "$answer" "sweep "
    asks bench sweep --syn; is "... with their options" "$answer" "--synthetic "
    asks bench sweep --synthetic 3; is "... and what they can be" "$answer" "35b "
    asks --tem; is "bash completes an option" "$answer" "--temperature "
    asks --no-t; is "... a switch that is on" "$answer" "--no-think --no-tool-guide --no-title "
    asks --theme h; is "... a choice" "$answer" "high-contrast "
    asks --theme = h; is "... behind a = too" "$answer" "high-contrast "
    asks --kv b; is "... a recipe of the table" "$answer" "bf16 "
    asks --temperature 0; is "... and no number" "$answer" " "
    asks --resume t; is "bash completes a conversation" "$answer" "trip "
    asks --endpoint c; is "... an endpoint of the config file" "$answer" "cluster "
    asks session show a; is "... of any name, quoted" "$answer" 'a\ \$\(touch\ ran\)\ b '
    asks session restore ''; is "... those in the trash" "$answer" "gone "
    is "... which is never run" "$(ls ran 2>&1 | grep -c '^ran')" 0
    echo '{}' > schema.json
    asks --schema sch; is "... a file of a schema" "$answer" "schema.json "
    asks -f sch; is "... and one to attach" "$answer" "schema.json "
    asks --model models/o; is "bash completes a model's directory" "$answer" "models/one "
    asks -m own; is "... and its name" "$answer" "own-model "
    asks model verify own; is "... for a sub-command, too" "$answer" "own-model "
    is "nothing is said beside it" "$(cat err)" ""
fi
if command -v fish > /dev/null; then
    fishes() { answer=$(fish --no-config -c "source fish.script; complete -C '$1'" 2>&1 | cut -f 1 | tr '\n' ' '); }
    fishes 'q35chat ses'; is "fish completes a subcommand" "$answer" "session "
    fishes 'q35chat sessions r'; is "... after another name of the group" "$answer" "restore rm "
    fishes 'q35chat help serve cl'; is "... and after help" "$answer" "clients "
    fishes 'q35chat serve clients co'; is "... programs that use the server" "$answer" "codex "
    fishes 'q35chat serve --li'; is "... options of serve start after serve alone" "$answer" "--listen "
    fishes 'q35chat -f sch'; is "... a file to attach" "$answer" "schema.json "
    fishes 'q35chat bench s'; is "... and its words" "$answer" "sweep "
    fishes 'q35chat --theme h'; is "... a choice" "$answer" "high-contrast "
    fishes 'q35chat --resume t'; is "... a conversation" "$answer" "trip "
    fishes 'q35chat --endpoint c'; is "... an endpoint of the config file" "$answer" "cluster "
    fishes 'q35chat session show t'; is "... behind a word too" "$answer" "trip "
    fishes 'q35chat session restore '; is "... those in the trash" "$answer" "gone "
    fishes 'q35chat --model models/o'; is "... a directory" "$answer" "models/one/ "
    fishes 'q35chat -m own'; is "... the name of a model" "$answer" "own-model "
fi
if command -v zsh > /dev/null; then
    zsh -n zsh.script; is "zsh can read its script" $? 0
    "$BUILD/tests/pty/wire" -t $patience 100x24 zsh -f << END || status=1
type autoload -U compinit; compinit -u -D; . ./zsh.script; clear\\r
type q35chat -f nothing -f sch\\t
see zsh completes files to attach: -f nothing -f schema.json
type \\025q35chat serve --li\\t
see ... options of serve start after serve alone: serve --listen=
type \\025q35chat sessions res\\t
see ... sub-commands after another name of the group: sessions restore
type \\025q35chat help serve cl\\t co\\t
see ... and after help: help serve clients
END
fi
exit $status
