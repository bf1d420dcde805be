#!/bin/sh
# q35chat session, and continuing a conversation in pipe mode.
. tests/pty/common.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

run() { timeout $patience "$q" "$@" > out 2> err < /dev/null; rc=$?; }

run session list
is "without conversations the list is empty" "$rc $(cat out err)" "0 q35chat: no saved conversation yet"
dir=$XDG_STATE_HOME/q35chat/sessions
mkdir -p "$dir"
{
    echo '{"q35chat":1,"created":"2026-01-01T00:00:00Z","model":"m"}'
    echo '{"role":"user","content":"Where is \u001b[31mOslo?"}'
    echo '{"role":"assistant","content":"In Norway."}'
} > "$dir/trip.jsonl"
{
    echo '{"q35chat":1,"model":"m"}'
    echo '{"role":"user","content":"Hello"}'
    echo '{"title":"A greeting"}'
} > "$dir/greeting.jsonl"
touch -d '2 days ago' "$dir/trip.jsonl"
run session list
has "the newest comes first" "$(head -n 1 out)" "greeting"
has "... with its title" "$(head -n 1 out)" "A greeting"
is "nothing of a file commands the terminal" "$(grep -c "$(printf '\033')" out)" 0
run session list NORWAY oslo
has "words are searched" "$(cat out)" "trip"
is "... in all, and the hit is shown" "$(wc -l < out | tr -d ' ')" 2
run session list GREET
has "words are searched in titles, too" "$(cat out)" "A greeting"
is "... which are their own hit" "$(wc -l < out | tr -d ' ')" 1
truncate -s 1G "$dir/zeros.jsonl"
run session list NORWAY
is "a gigabyte of zeros is no conversation" "$rc $(grep -c trip out) $(cat err)" "0 1 "
rm "$dir/zeros.jsonl"
run session list --json
is "--json is a line each" "$(wc -l < out | tr -d ' ')" 2
has "... with names and figures" "$(head -n 1 out)" '"name":"greeting","title":"A greeting"'
head -c 2100000 /dev/zero | tr '\0' a > "$dir/trip.jsonl.checkpoint"
run session list
has "the list tells the size of a checkpoint" "$(grep trip out)" "(checkpoint 2.1 MB)"
is "... of those that have one" "$(grep -c checkpoint out)" 1
run session show trip
has "... and so does show" "$(cat err)" "checkpoint: 2.1 MB on disk"
rm "$dir/trip.jsonl.checkpoint"
run session show trip
has "show prints what was said" "$(cat out)" "In Norway."
run session export trip json
has "export prints to stdout" "$(cat out)" '"content": "In Norway."'
run session export trip talk.md
is "... or writes a file" "$rc $(head -c 2 talk.md)" "0 # "
run session export trip talk.md
is "... and never over one" "$rc $(grep -c 'exists; choose another name' err)" "1 1"
run session rm greeting nothere
is "rm says what it could not delete" "$rc $(cat err)" "1 q35chat: no conversation nothere"
is "... and deletes the rest" "$(ls "$dir")" "trip.jsonl"
is "... into the trash, and says where" "$(cat out)" "greeting is in the trash for 30 days: $XDG_STATE_HOME/q35chat/trash/greeting.jsonl"
run session list --names
is "... which is not listed" "$(cat out)" "trip"
run session restore
has "session restore lists it" "$(cat out)" "A greeting"
run session restore greeting nothere
is "... and brings it back, which a line on stderr says" "$rc $(cat out err)" "1 q35chat: greeting is restored
q35chat: no conversation nothere in the trash"
is "... as it was" "$(grep -c 'A greeting' "$dir/greeting.jsonl") $(ls "$XDG_STATE_HOME/q35chat/trash")" "1 "
run session rm --force greeting
is "with --force it is gone at once" "$rc $(cat out err; ls "$dir" "$XDG_STATE_HOME/q35chat/trash" | grep -c greeting)" "0 0"
run session rm "$dir/trip.jsonl"
is "a path is not deleted" "$rc $(ls "$dir")" "1 trip.jsonl"
run session export trip html
is "a format that is not there is no file name" "$rc $(sed 's/ (.*//' err)" \
    "2 q35chat: session export: unknown format html; the formats are md, json and txt"
is "... and nothing is written" "$(ls html 2>&1 | grep -c '^html')" 0
run session export trip talk.html
is "nor is markdown written into another kind of file" "$rc $(ls talk.html 2>&1 | grep -c '^talk')" "2 0"
run session export trip txt talk
is "... unless the format is said" "$rc $(grep -c 'In Norway' talk)" "0 1"
run session list --jsn
is "a mistyped option is refused" "$rc $(cat out err)" \
    "2 q35chat: unknown option --jsn (did you mean --json?); q35chat session list --help lists them"
run session
is "the word alone is a usage error" "$rc $(grep -c Usage err)" "2 1"
run --model "$small" --temperature 0 -n 8 --no-think -c And now?
is "-c goes on with the newest one" "$rc $(grep -c '"role":"user"' "$dir/trip.jsonl")" "0 2"
flock "$dir/trip.jsonl" env HOME="$HOME" timeout $patience "$q" --model "$small" --temperature 0 -n 8 --no-think -c And then? > out 2> err < /dev/null
is "-c goes on with a copy of one that is open elsewhere" "$? $(grep -c 'trip is open in another q35chat' err) $(ls "$dir" | grep -c 'jsonl$')" \
    "0 1 2"
has "... which has all of it" "$(cat "$dir"/20*.jsonl)" "In Norway."
rm "$dir"/20*.jsonl
printf '{ "model": "m", "q35chat": 1 }\n{ "content": "Spaced out", "role": "user" }\n' > "$dir/spaced.jsonl"
run session list
has "a file with other blanks and another order of keys is listed" "$(cat out)" "Spaced out"
printf '{"q35chat":1}\n{"role":"user","content":"One"}\n{"role":"assistant","con\n{"role":"user","content":"Two"}\n' > "$dir/spaced.jsonl"
run session show spaced
has "a damaged line costs that line" "$rc $(cat out)" "Two"
has "... and is told" "$(cat err)" "line 3 of"
rm "$dir/spaced.jsonl"
if unshare -rm true 2> /dev/null; then
    cat > read_only << 'END'
mount --bind "$XDG_STATE_HOME" "$XDG_STATE_HOME" && mount -o remount,bind,ro "$XDG_STATE_HOME" && exec "$@"
END
    before=$(cksum < "$dir/trip.jsonl")
    unshare -rm sh read_only timeout $patience "$q" --model "$small" --temperature 0 -n 8 --no-think -r trip And then? > out 2> err < /dev/null
    rc=$?
    has "-r on a file system that cannot be written answers" "$(wc -c < out | tr -d ' ') bytes" " bytes"
    is "... with words" "$rc $(test -s out && echo words)" "1 words"
    has "... and says that it cannot save" "$(cat err)" "this conversation is not saved: cannot make"
    is "... and nothing has changed" "$(cksum < "$dir/trip.jsonl")" "$before"
else
    echo "skip no file system can be mounted here"
fi
rm "$dir/trip.jsonl"
run --model "$small" -c And now?
is "... if there is one" "$rc $(cat err)" "2 q35chat: no saved conversation to continue"
printf '{"q35chat":1,"model":"A\\u202eB"}\n{"role":"user","content":"a"}\n' > "$dir/odd.jsonl"
run session list --json
has "JSON has what a terminal would obey as an escape" "$(cat out)" '"model":"A\u202eB"'
cp out pipe
"$BUILD/tests/pty/wire" -t $patience -l sent 80x24 "$q" session list --json << END || status=1
end ... which ends well on a terminal: 0
END
is "... and is the same on a terminal" "$(tr -d '\r' < sent)" "$(cat pipe)"
rm -rf "$XDG_STATE_HOME"
for words in "session list" "session list oslo" "session restore"; do
    run $words
    is "$words prints nothing on stdout where nothing is" "$rc $(cat out)" "0 "
    cat err >> told
done
is "... and a line on stderr" "$(cat told)" "q35chat: no saved conversation yet
q35chat: no saved conversation has all these words
q35chat: the trash is empty"
run session list --json
is "... but not with --json" "$rc $(cat out err)" "0 "
exit $status
