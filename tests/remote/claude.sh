#!/bin/sh
# The real Claude Code does a task of five steps with `q35chat serve`, whose engine is scripted.  CLAUDE=FILE is its program, which the package
# claude-agent-sdk carries (claude_agent_sdk/_bundled/claude).  Needs build/tests/remote/scripted.
. tests/remote/serve.inc
[ -x "${CLAUDE:-}" ] || { echo "skip CLAUDE names no program"; exit 0; }
[ -x "$BUILD/tests/remote/scripted" ] || { echo "skip make $BUILD/tests/remote/scripted"; exit 0; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
q=$BUILD/tests/remote/scripted
mkdir "$tmp/home" "$tmp/work"
echo "helo world" > "$tmp/work/greeting.txt"
echo "another" > "$tmp/work/other.txt"
sed "s|@PWD@|$tmp/work|" tests/remote/claude.script > "$tmp/script"
export SCRIPT="$tmp/script"
begin assets/demo --listen 127.0.0.1:$port
ANTHROPIC_AUTH_TOKEN=$(cat "$XDG_CONFIG_HOME/q35chat/serve.key")
export ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL=http://127.0.0.1:$port ANTHROPIC_MODEL=demo ANTHROPIC_DEFAULT_HAIKU_MODEL=demo
export CLAUDE_CODE_MAX_CONTEXT_TOKENS=131072 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 HOME="$tmp/home"
(cd "$tmp/work" && timeout $((4 * patience)) "$CLAUDE" -p --allowedTools Bash,Read,Edit --output-format json \
    "Mend the spelling in greeting.txt and count its words" > "$tmp/out" 2>&1 < /dev/null)
has "the task is done to the end" "$(cat "$tmp/out")" "The greeting is mended, and has two words."
has "the tools ran" "$(cat "$tmp/work/greeting.txt")" "hello world"
is "five requests were answered" "$(figure requests_total)/$(figure answers_total)" "5/5"
read=$(($(figure prompt_tokens_total) - $(figure prompt_cached_tokens_total))) all=$(figure prompt_tokens_total)
[ $((read * 4)) -lt "$all" ] && ok "no prefix was read again ($read of $all tokens were)" ||
    bad "no prefix was read again" "$read of $all tokens were read, expected less than a quarter"
[ $status = 0 ] || cut -c1-2000 "$tmp/out"
exit $status
