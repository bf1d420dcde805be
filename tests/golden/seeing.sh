#!/bin/sh
# Pictures from a file to an answer, on the small checkpoint with a vision tower (tests/data/vision): the same picture is the same prompt whatever its
# file, another one is not, and a conversation that is resumed computes nothing of it again.
. tests/pty/common.inc
model=tests/data/vision/v0 data=tests/data/pictures
cp $data/page.png "$tmp/page.png"
ask() {         # options: the JSON of the answer in $out
    out=$($EMULATOR timeout $patience "$q" --model $model --backend cpu --no-stdin --no-think --temperature 0 -n 6 --json "$@" 2> "$tmp/err")
}
figure() { printf %s "$out" | sed "s/.*\"$1\":\([^,}]*\).*/\1/"; }

ask "What?"
text=$(figure prompt)
ask -f "$tmp/page.png" "What?"
is "a picture is as many tokens as the limits of the model make it, and its two marks" $(($(figure prompt) - text)) 26
has "... which --json shows" "$out" '"width":440,"height":300,"tokens":24}'
seen=$(figure answer)
ask --no-vision -f "$tmp/page.png" "What?"
has "without the tower it is refused" "$out$(cat "$tmp/err")" "was loaded without its vision tower (--no-vision)"
ask --picture-tokens 12 -f "$tmp/page.png" "What?"
is "a limit shrinks it" $(($(figure prompt) - text)) 10

ask -f $data/palette.png "What?"
is "another picture is another prompt" "$([ "$(figure answer)" != "$seen" ] && echo yes)" yes
ask --save seen -f "$tmp/page.png" "What?"
is "the same picture gives the same answer" "$(figure answer)" "$seen"
long="What is this, in as many words as it takes to fill a block of tokens?"
ask --save kept -f "$tmp/page.png" "$long"
first=$(figure prompt)
rm "$tmp/page.png"
ask -r kept "And?"
is "a resumed conversation has its picture without the file" $(($(figure prompt) > first)) 1
is "... and computes only what is new" $(($(figure cached) >= first - 10)) 1

"$q" session export kept "$tmp/talk.md" > /dev/null 2>&1
link=$(sed -n 's/^!\[\](<\(.*\)>)$/\1/p' "$tmp/talk.md")
is "its export shows the picture, which is beside it" "$(cmp "$tmp/$link" $data/page.png && echo same)" same

"$q" debug image --model $model --out "$tmp/rows" > "$tmp/line" << END
{"image": "$data/page.png"}
END
has "debug image goes by the limits of the model" "$(cat "$tmp/line")" '"grid": [1, 8, 12], "tokens": 24'

# The demo model sees shapes, colours and sides.
demo=assets/demo
answers() { timeout $patience "$q" --model $demo --no-stdin -f "$demo/$1" "$2" 2> "$tmp/err"; }
if [ -e $demo/model_vision.safetensors ]; then
    is "the demo model sees the colour" "$(answers square.png "What colour is the square?")" "The square is red."
    is "... and what it is" "$(answers square.png "What is in the picture?")" "A red square."
    is "... and sides" "$(answers shapes.png "What is on the left?") $(answers shapes.png "What is on the right?")" \
        "On the left is a blue circle. On the right is a green triangle."
fi
exit $status
