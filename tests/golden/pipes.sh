#!/bin/sh
# Runs the lines to paste of docs/pipes.md with the demo model, in a directory with the files that they name.
. tests/pty/common.inc
trap 'rm -rf "$tmp"' EXIT
if [ -z "$demo" ] || ! command -v git > /dev/null; then
    echo "skip docs/pipes.md: assets/demo or git is not there"
    exit 0
fi
sed -n '/^```sh$/,/^```$/p' docs/pipes.md | grep -v '^```' > "$tmp/lines"
mkdir "$tmp/bin" "$tmp/place" "$XDG_CONFIG_HOME" "$XDG_CONFIG_HOME/q35chat"
ln -s "$q" "$tmp/bin/q35chat"
PATH=$tmp/bin:$PATH
export Q35CHAT_MODEL=$demo GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
printf 'temperature = 0\nmax_tokens = 600\n' > "$XDG_CONFIG_HOME/q35chat/q35chat.conf"
cd "$tmp/place" || exit 1
printf 'int main(void)\n{\n    return 0;\n}\n' > main.c
printf 'It returns 0.\n' > notes.txt
printf 'Hello\nThank you\n' > words.txt
printf 'Be brief.\n' > style.txt
printf 'started\nport 80 is in use\n' > server.log
printf '{"id": 1, "prompt": "What is 2 + 3?"}\n{"id": "b", "messages": [{"role": "user", "content": "Hello"}], "seed": 4}\n' > questions.jsonl
git init -q . && git add main.c && git commit -qm first
printf 'int main(void)\n{\n    return 1;\n}\n' > main.c
git add main.c
printf 'int main(void)\n{\n    return 2;\n}\n' > main.c

is "there are twenty lines or more" "$([ "$(wc -l < "$tmp/lines")" -ge 20 ] && echo yes)" yes
while IFS= read -r line <&3; do
    case $line in *jq*) command -v jq > /dev/null || { echo "skip $line: jq is not there"; continue; } ;; esac
    rm -f "$tmp/err"
    touch "$tmp/before"
    timeout $patience sh -c "$line" > "$tmp/out" 2> "$tmp/err" < /dev/null
    rc=$?
    made=$(find . -newer "$tmp/before" -type f -size +0 ! -path './.git/*' | head -n 1)
    is "$line" "$rc $([ -s "$tmp/out" ] || [ -n "$made" ] && echo said)" "0 said"
    [ $rc -eq 0 ] || sed 's/^/    /' "$tmp/err"
done 3< "$tmp/lines"
exit $status
