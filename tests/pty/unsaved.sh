#!/bin/sh
# A conversation that cannot be saved: it is told, line by line and on the full screen; /quit asks once; every way out says what is not
# saved, with status 1, but for signals, after which it is in another place if one takes it.
. tests/pty/common.inc
. tests/pty/terminal.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
program=$q

# No file of it becomes longer than 512 bytes, as on a disk that is full.
printf '#!/bin/sh\nulimit -f 1\nexec "%s" "$@"\n' "$program" > limited
chmod +x limited
long=$(printf '%600s' x | tr ' ' a)

fill() {        # what does not fit
    q=$tmp/limited
    begin --no-think --tools none "$@"
    type "$long\\r"
    seen "line mode says that it is not saved" "is not being saved"
    seen "... and answers" " ctx "
}

fill
type '/quit\r'
seen "/quit is refused once" "/quit again"
type '/quit\r'
seen "... then it says what is lost" "is not saved: cannot write"
seen "... with status 1" "status 1"
end

fill
type '\004'
seen "Ctrl-D says what is lost" "is not saved: cannot write"
seen "... with status 1" "status 1"
end

fill
type '/quit\r'
seen "/quit is refused" "/quit again"
type 'two\r'
seen "... something more is said" " ctx "
type '/quit\r'
seen "... and it is refused again" "/quit again"
type '/save /dev/full/x\r'
seen "it cannot be saved where there is no room" "cannot make"
type '\004'
seen "the end says so" "status 1"
end

timeout "$patience" ./limited --model "$small" --no-stdin --no-think -n 4 --save pipe "$long" > out 2> err
is "a pipe that cannot save fails" "$?" 1
has "... with a sentence" "$(cat err)" "is not saved: cannot write"
is "... and has answered" "$(test -s out && echo yes)" yes

# Where sessions belong stands a file: no session can be made.
export HOME=$tmp/home
mkdir -p "$HOME" "$XDG_STATE_HOME/q35chat"
rm -rf "$XDG_STATE_HOME/q35chat/sessions"
echo > "$XDG_STATE_HOME/q35chat/sessions"

kept() {        # NAME TEXT: the file in HOME has it; and goes
    has "$1" "$(cat "$HOME"/q35chat-*.jsonl 2>&1)" "$2"
    is "... for its owner alone" "$(ls -l "$HOME" | tail -n 1 | cut -c1-10)" "-rw-------"
    rm -f "$HOME"/q35chat-*.jsonl
}

for sig in TERM HUP; do
    q="env sh -c 'echo \$\$ > pid; exec \"$program\" \"\$@\"' q35chat"
    begin --no-think --tools none
    type 'Remember the milk\r'
    seen "line mode says that no session can be made" "is not being saved"
    seen "... and answers" " ctx "
    kill -$sig "$(cat pid)"
    [ $sig = HUP ] || seen "SIG$sig says where it is now" "continues it"
    for i in $(seq $((10 * patience))); do              # end() is a Ctrl-D, which must not come first
        kill -0 "$(cat pid)" 2> /dev/null || break
        sleep 0.1
    done
    end
    kept "after SIG$sig it is in HOME" "Remember the milk"
done

if [ -n "$demo" ]; then
    q=$program
    . "$root/tests/pty/wire.inc"
    at 100x24 --tools none --no-think --max-tokens 24 << END
see the full screen is there: F1 keys
type Say hello\\r
see the full screen has a sign: NO-SAVE
see ... and one sentence: this conversation is not being saved
see the answer has ended:  ready 
type /quit\\r
see /quit is refused once: /quit again
type /quit\\r
end then it ends with status 1: 1
END
    is "... and wrote nothing elsewhere" "$(ls "$HOME")" ""
    at 100x24 --tools none --no-think --max-tokens 24 << END
see the full screen is there: F1 keys
type Remember the bread\\r
see it is not saved: NO-SAVE
see the answer has ended:  ready 
signal TERM
end SIGTERM ends it: 143
END
    kept "on the full screen, too, it is in HOME after SIGTERM" "Remember the bread"
    at 100x24 --tools none --no-think --max-tokens 24 << END
see the full screen is there: F1 keys
type Remember the wine\\r
see it is not saved: NO-SAVE
see the answer has ended:  ready 
hangup
end SIGHUP ends it: 129
END
    kept "... and after SIGHUP" "Remember the wine"

    # A session that has nearly the length that a file may have.  The screen is drawn through a file in memory, which has room below that.
    rm -rf "$XDG_STATE_HOME/q35chat/sessions"
    mkdir "$XDG_STATE_HOME/q35chat/sessions"
    {
        echo '{"q35chat":1,"model":"m"}'
        printf '{"role":"user","content":"Hello, %306400s"}\n' x
        echo '{"role":"assistant","content":"Hi."}'
        echo '{"mark":0,"as":"dropped"}'
    } > "$XDG_STATE_HOME/q35chat/sessions/large.jsonl"
    printf '#!/bin/sh\nulimit -f 600\nexec "%s" "$@"\n' "$program" > limited
    q=$tmp/limited
    at 100x24 --tools none --no-think --max-tokens 24 -r large << END
see a large one is open: Hi.
type $long\\r
see on a disk that becomes full there is a sign: NO-SAVE
see ... and one sentence: cannot write
see the answer has ended:  ready 
type \\004
see Ctrl-D is refused once: /quit again
type \\004
end ... then it ends with status 1: 1
END
    is "... what was there before is there" "$(grep -c 'Hi\.' "$XDG_STATE_HOME/q35chat/sessions/large.jsonl")" 1
fi
exit $status
