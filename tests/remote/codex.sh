#!/bin/sh
# The real Codex does a task of five steps with `q35chat serve`, whose engine is scripted.  CODEX=FILE is its program, which the package
# openai-codex-cli-bin carries.  It gives its tool for patches, of free text, to models that it knows, so that one of their names is used.  Needs
# build/tests/remote/scripted.
. tests/remote/serve.inc
[ -x "${CODEX:-}" ] || { echo "skip CODEX names no program"; exit 0; }
[ -x "$BUILD/tests/remote/scripted" ] || { echo "skip make $BUILD/tests/remote/scripted"; exit 0; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
q=$BUILD/tests/remote/scripted
export SCRIPT=tests/remote/codex.script
begin assets/demo --any-model --listen 127.0.0.1:$port
mkdir "$tmp/codex" "$tmp/work"
cat > "$tmp/codex/config.toml" << END
model = "gpt-5.5"
model_provider = "q35chat"
[model_providers.q35chat]
name = "q35chat"
base_url = "http://127.0.0.1:$port/v1"
env_key = "Q35CHAT_KEY"
wire_api = "responses"
END
echo "helo world" > "$tmp/work/greeting.txt"
Q35CHAT_KEY=$(cat "$XDG_CONFIG_HOME/q35chat/serve.key")
export Q35CHAT_KEY CODEX_HOME="$tmp/codex"
(cd "$tmp/work" && timeout $((4 * patience)) "$CODEX" exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox \
    "Mend the spelling in greeting.txt and count its words" > "$tmp/out" 2>&1 < /dev/null)
has "the task is done to the end" "$(cat "$tmp/out")" "The greeting is mended, and has two words."
has "the tools ran" "$(cat "$tmp/work/greeting.txt")" "hello world"
has "five requests were answered" "$(figure requests_total)/$(figure answers_total)" "5/5"
read=$(($(figure prompt_tokens_total) - $(figure prompt_cached_tokens_total))) all=$(figure prompt_tokens_total)
[ $((read * 4)) -lt "$all" ] && echo "ok no prefix was read again ($read of $all tokens were)" ||
    { echo "not ok $read of $all tokens were read, expected less than a quarter"; status=1; }
exit $status
