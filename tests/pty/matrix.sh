#!/bin/sh
# Every kind of stdin and stdout, with and without a prompt on the command line: output and exit status. The chat is line mode here.
. tests/pty/common.inc
. tests/pty/terminal.inc
cd "$tmp" || exit 1
mkfifo silent
exec 4<> silent                         # who could write there, and never does
trap 'rm -rf "$tmp"' EXIT
printf Hello > text
printf 'a\000b' > binary
said=$(timeout $patience "$q" --model "$small" --temperature 0 --no-think -n 2 Hello < /dev/null 2> /dev/null)

cat > cell << END
run() { TERM=dumb timeout --foreground $patience $q --model $small --temperature 0 --no-think -n 2 --stdin-wait 1 \$wait \$prompt; }
to() {
    case \$1 in
    terminal) run ;;
    pipe) { run; echo \$? > rc; } | cat > out; return ;;
    closed) run >&- ;;
    full) run > /dev/full ;;
    esac
    echo \$? > rc
}
prompt=\$3 wait=
case \$1 in
terminal) to \$2 ;;
null) to \$2 < /dev/null ;;
closed) to \$2 <&- ;;
empty) : | to \$2 ;;
text) cat text | to \$2 ;;
silent) [ "\$prompt" ] || wait='--timeout 1'; to \$2 < silent ;;
file) to \$2 < text ;;
binary) to \$2 < binary ;;
esac
echo over
END

cell() {        # STDIN STDOUT PROMPT EXPECTED
    : > out
    : > "$screen"
    at=1
    script -qefc "stty cols 80 rows 24; sh ./cell $1 $2 $3" "$screen" < "$keys" > /dev/null 2>&1 &
    job=$!
    exec 3> "$keys"
    where="stdin: $1, stdout: $2, ${3:-no prompt}"
    if [ "$4" = chat ]; then
        seen "$where: a chat" "> "
        type '/quit\r'
    fi
    seen "$where: it ends" over
    end
    [ "$2" = terminal ] && cp "$screen" out
    found=$(cat rc)
    grep -qF -- "$said" out && found="$found and an answer"
    is "... as it should" "$found" "$(case $4 in chat) echo 0 ;; answer) echo 0 and an answer ;; *) echo "$4" ;; esac)"
}
while read -r stdin prompt terminal pipe closed full; do
    cell "$stdin" terminal "${prompt#-}" "$terminal"
    cell "$stdin" pipe "${prompt#-}" "$pipe"
    cell "$stdin" closed "${prompt#-}" "$closed"
    cell "$stdin" full "${prompt#-}" "$full"
done << 'END'
terminal - chat chat chat chat
terminal Hello answer answer 1 1
null - 2 2 2 2
null Hello answer answer 1 1
closed - 2 2 2 2
closed Hello answer answer 1 1
empty - 2 2 2 2
empty Hello answer answer 1 1
text - answer answer 1 1
text Hello answer answer 1 1
silent - 124 124 124 124
silent Hello 2 2 2 2
file - answer answer 1 1
file Hello answer answer 1 1
binary - 2 2 2 2
binary Hello 2 2 2 2
END
exit $status
