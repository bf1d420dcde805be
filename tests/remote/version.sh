#!/bin/sh
# Programs of two versions meet: who would attach to one of another version says so and loads the model itself; a server refuses.
. tests/remote/serve.inc
[ -n "$demo" ] || { echo "skip attaching needs the demo model"; exit 0; }
ours=$(sed -n 's/.*RELAY_PROTOCOL = \([0-9]*\).*/\1/p' config/limits.h)
one() { timeout $patience "$q" --model "$demo" --no-stdin --temperature 0 --no-think "$@" hello > "$tmp/out" 2> "$tmp/err"; found=$?; }
one --no-attach
there=$(cat "$tmp/out")
is "the model answers" "$found $([ -n "$there" ] && echo yes)" "0 yes"

other() {       # NUMBER ATTACH: another version listens
    end
    rm -f "$socket"
    python3 tests/remote/other.py "$socket" "$(cd "$demo" && pwd -P)" "$@" > "$tmp/posted" 2> "$tmp/other.log" &
    server=$!
    for i in $(seq $((10 * patience))); do
        asks get /v1/models > "$tmp/models" && grep -q root "$tmp/models" && return
        sleep 0.1
    done
}
sentence="the q35chat that has loaded the model is of another version: between programs it speaks protocol"

for number in - $((ours + 1)); do
    other $number $((ours + 1))
    said="$sentence $([ $number = - ] && echo 0 || echo $number), and this one $ours"
    for how in "" "--save talk$number"; do
        one $how
        is "protocol $number: a pipe${how:+ that saves} loads the model itself" "$found $(cat "$tmp/out")" "0 $there"
        has "... and says so" "$(cat "$tmp/err")" "$said; it is loaded here as well"
        is "... and asks the other one nothing" "$(cat "$tmp/posted")" ""
    done
    one --no-attach
    is "... not with --no-attach" "$found $(cat "$tmp/err")" "0 "
    timeout $patience "$q" --endpoint "unix:$socket" --no-stdin --save end$number hello > "$tmp/out" 2> "$tmp/err"
    has "... as an endpoint it is asked as any other server" "$(cat "$tmp/err")" "$said; it is asked as any other server"
    has "... at the usual path" "$(cat "$tmp/posted")" "/v1/chat/completions"
done

# It is another one only when it is attached to: it was updated in between.
for attach in - $((ours + 1)); do
    other $ours $attach
    one --save late$attach
    is "one that turns out to be another ($attach): the model is loaded here" "$found $(cat "$tmp/out")" "0 $there"
    has "... with a sentence" "$(cat "$tmp/err")" "is of another version"
    is "... and it is asked no more" "$(sort -u "$tmp/posted" | tr '\n' ' ')" "/q35chat/attach "
done

end
rm -f "$socket"
begin "$demo"
for protocol in '' ', "protocol": 0' ", \"protocol\": $((ours + 1))" ", \"protocol\": \"$ours\"" ', "protocol": 99999999999999999999'; do
    refused=$(asks post /q35chat/attach "{\"id\": \"a\"$protocol}")
    has "a server refuses who asks with '$protocol'" "$refused" "400 "
    has "... in a sentence" "$refused" "the q35chat that asks is of another version"
done
has "... with both numbers" "$(asks post /q35chat/attach "{\"id\": \"a\", \"protocol\": 77}")" \
    "it speaks protocol 77, and the one that has loaded the model $ours"
one --save same --verbose
has "one of the same version is attached" "$(cat "$tmp/err")" "attached to the model that another q35chat has loaded"
is "... and answered" "$found $(cat "$tmp/out")" "0 $there"
exit $status
