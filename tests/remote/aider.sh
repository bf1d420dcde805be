#!/bin/sh
# The real aider, with the line of `q35chat serve clients`, changes a file and commits it; the engine of `q35chat serve` is scripted.
# AIDER=FILE is its program (aider-chat on PyPI).  Needs build/tests/remote/scripted.
. tests/remote/serve.inc
[ -x "${AIDER:-}" ] || { echo "skip AIDER names no program"; exit 0; }
[ -x "$BUILD/tests/remote/scripted" ] || { echo "skip make $BUILD/tests/remote/scripted"; exit 0; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
q=$BUILD/tests/remote/scripted
export SCRIPT=tests/remote/aider.script
begin assets/demo --listen 127.0.0.1:$port
line=$("$q" serve clients aider | sed -n 's/^ *\(aider .*\)/\1/p')
has "the line is printed" "$line" "aider --model openai/demo --openai-api-base http://127.0.0.1:$port/v1"
mkdir "$tmp/work"
echo "helo world" > "$tmp/work/greeting.txt"
export HOME="$tmp"
git config --global user.name test
git config --global user.email test@localhost
cd "$tmp/work" && git init -q . && git add greeting.txt && git commit -q -m begin
eval "timeout $((4 * patience)) '$AIDER' ${line#aider} --edit-format diff --yes-always --no-check-update --no-show-model-warnings \
    --analytics-disable --no-gitignore --message 'Mend the spelling in greeting.txt' greeting.txt" > "$tmp/out" 2>&1 < /dev/null
cd - > /dev/null
has "the file is changed" "$(cat "$tmp/work/greeting.txt")" "hello world"
has "... and committed with a message of the model" "$(git -C "$tmp/work" log --format=%s)" "fix: mend the greeting"
has "... in two requests" "$(figure requests_total)/$(figure answers_total)" "2/2"
lacks "aider had no error of the server" "$(cat "$tmp/out")" "litellm."
[ "$status" -eq 0 ] || cat "$tmp/out"
exit $status
