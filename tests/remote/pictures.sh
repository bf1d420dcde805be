#!/bin/sh
# Pictures for a server that takes them, from -f, from lines of --batch and from a conversation that is resumed without their files; and refusals.
. tests/pty/common.inc
. tests/remote/replay.inc
data=tests/data/pictures
cp $data/page.png "$tmp/page"
cp $data/photo.jpg "$tmp/photo.png"     # a name says nothing
ask() {         # options: the answer in $out, what was said in $err, the status in $found
    timeout $patience "$q" --endpoint "$replay/sglang" --no-stdin "$@" > "$tmp/out" 2> "$tmp/err"
    found=$?
    out=$(cat "$tmp/out") err=$(cat "$tmp/err")
}
last() { tail -n 1 "$tmp/requests"; }
count() { last | grep -o "$1" | wc -l | tr -d ' '; }
sent() {        # N FILE: picture N of the last request is that file, byte for byte
    last | python3 -c '
import base64, json, sys
parts = [p for m in json.load(sys.stdin)["body"]["messages"] if isinstance(m["content"], list) for p in m["content"]]
urls = [p["image_url"]["url"] for p in parts if p["type"] == "image_url"]
print(base64.b64decode(urls[int(sys.argv[1])].split(",")[1]) == open(sys.argv[2], "rb").read())' "$1" "$2" 2>&1
}

ask -f "$tmp/page" -f "$tmp/photo.png" --json "What is this?"
is "pictures are sent with -f" "$found $(count '"type": "image_url"')" "0 2"
is "... each as its file is" "$(sent 0 $data/page.png) $(sent 1 $data/photo.jpg)" "True True"
has "... with the type that the bytes have" "$(last)" 'data:image/jpeg;base64,'
has "... and --json shows what was seen" "$out" '"width":440,"height":300,"tokens":126,"estimated":true'
ask -f $data/exif6.jpg -f $data/moving.webp -f $data/moving.gif hello
is "what other programs may see differently is sent as PNG" "$found $(count 'data:image/png;base64,')" "0 3"
printf '{"prompt": "one", "files": ["%s"]}\n{"prompt": "none"}\n{"prompt": "bad", "files": ["%s"]}\n' $data/moving.gif "$tmp/cut.png" > "$tmp/lines"
head -c 200 $data/page.png > "$tmp/cut.png"
: > "$tmp/requests"
timeout $patience "$q" --endpoint "$replay/sglang" --batch --batch-files < "$tmp/lines" > "$tmp/out" 2> "$tmp/err"
is "lines of --batch have pictures of their own" "$(grep -c image_url "$tmp/requests") $(grep -c '"answer"' "$tmp/out")" "1 2"
has "... and a damaged one is an error of its line" "$(tail -n 1 "$tmp/out")" "cut.png is a damaged PNG file: it ends too early"

ask --save seen -f "$tmp/page" hello
rm "$tmp/page"
ask -r seen again
is "a resumed conversation needs the file no more" "$found $(sent 0 $data/page.png)" "0 True"
state=$XDG_STATE_HOME/q35chat/sessions
is "... which is kept beside it" "$(ls "$state/seen.jsonl.pictures" | wc -l | tr -d ' ')" 1
has "an export names it" "$("$q" session export seen 2>&1)" "picture of 440 x 300 pixels"
"$q" session export seen md "$tmp/seen.md" > /dev/null 2>&1
cmp -s "$tmp"/seen.md.pictures/*.png $data/page.png
is "... and one to a file has it beside it" "$?" 0
"$q" session rm seen > /dev/null 2>&1
is "a deleted conversation takes it along" "$(ls "$state" | grep -c '^seen')" 0

printf 'BM\0\0' > "$tmp/old.bmp"
printf 'GIF89a\1\0' > "$tmp/cut.gif"
: > "$tmp/zero.png"
ask -f "$tmp/old.bmp" hello
has "kinds of files that are not read are refused by name" "$found $err" "2 q35chat: $tmp/old.bmp is a BMP file, which is not read as a picture"
ask -f "$tmp/cut.gif" hello
has "... a GIF that ends too early, too" "$found $err" "2 q35chat: $tmp/cut.gif is a damaged GIF file: it ends too early"
ask -f "$tmp/zero.png" hello
has "... and an empty one" "$found $err" "2 q35chat: $tmp/zero.png is empty"
ask -f "$tmp/cut.png" hello
is "a damaged picture is refused before anything is sent" "$found" 2
has "... in a sentence" "$err" "cut.png is a damaged PNG file: it ends too early"
timeout $patience "$q" --model "$demo" --no-vision --no-stdin -f $data/tiny.png hello > "$tmp/out" 2> "$tmp/err"
is "a model without its vision tower refuses it" "$?" 1
has "... by the option that left it out" "$(cat "$tmp/err")" "the model was loaded without its vision tower (--no-vision)"
exit $status
