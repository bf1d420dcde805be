#!/bin/sh
# Pictures over HTTP, to the small checkpoint with a vision tower: as OpenAI's clients send them, counted in the usage, refused where they must be.
. tests/remote/serve.inc
data=tests/data/pictures
body() {        # FILE: a request with that picture
    python3 -c '
import base64, json, sys
url = sys.argv[1] if "://" in sys.argv[1] else "data:image/png;base64," + base64.b64encode(open(sys.argv[1], "rb").read()).decode()
print(json.dumps({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url, "detail": "high"}},
                                                            {"type": "text", "text": "What?"}]}],
                  "max_tokens": 4, "temperature": 0, "enable_thinking": False}))' "$1"
}
post() { asks post /v1/chat/completions "$(body "$1")"; }
tokens() { sed 's/.*"prompt_tokens": *\([0-9]*\).*/\1/'; }

begin tests/data/vision/v0 --threads 1
plain=$(asks post /v1/chat/completions '{"messages": [{"role": "user", "content": "What?"}], "max_tokens": 4, "enable_thinking": false}' | tokens)
is "a picture is answered, and counted" $(($(post $data/page.png | tokens) - plain)) 26
counted=$(asks post /tokenize "$(body $data/page.png)")
is "... a GIF likewise, by its bytes" $(($(post $data/moving.gif | tokens) - plain)) 6
is "... also by /tokenize" "$(echo "$counted" | sed 's/.*"count": *\([0-9]*\).*/\1/')" "$(post $data/page.png | tokens)"
is "... with as many pads" "$(echo "$counted" | tr ',' '\n' | sort | uniq -c | sort -n | tail -n 1 | awk '{print $1}')" 24
parts() {       # FILE: the same in Anthropic's form
    body "$1" | python3 -c '
import json, sys
data = json.load(sys.stdin)["messages"][0]["content"][0]["image_url"]["url"].split(",")[1]
picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
print(json.dumps({"messages": [{"role": "user", "content": [picture, {"type": "text", "text": "What?"}]}]}))'
}
count() { asks post /v1/messages/count_tokens "$1" | sed 's/.*"input_tokens": *\([0-9]*\).*/\1/'; }
is "... and by /v1/messages/count_tokens" \
    $(($(count "$(parts $data/page.png)") - $(count '{"messages": [{"role": "user", "content": "What?"}]}'))) 26
has "a damaged one is refused" "$(post tests/data/pictures/golden.json)" "400 "
has "... in a sentence" "$(post tests/data/pictures/golden.json)" "it is not a picture: its bytes are not PNG, JPEG, WebP or GIF"
has "an address of the network is not fetched" "$(post https://example.org/a.png)" "it fetches nothing from the network"

# A second q35chat, which uses the model of the first.
attached() { timeout $patience "$q" --model tests/data/vision/v0 --no-stdin --temperature 0 --no-think -n 6 "$@" 2>&1; }
served() { figure requests_total; }
before=$(served)
there=$(attached -f $data/page.png -f $data/photo.jpg --save seen "What is this?")
is "an attached program sends its pictures" $(($(served) - before)) 1
is "... and gets the answer that it gives itself" "$there" "$(attached --no-attach -f $data/page.png -f $data/photo.jpg "What is this?")"
lacks "... which another picture changes" "$(attached -f $data/photo.jpg -f $data/page.png "What is this?")" "$there"
again=$(attached -r seen "And this?")
is "... also in a conversation that goes on" "$again" "$(attached --no-attach -r seen "And this?")"
timeout $patience "$q" --model tests/data/vision/v0 --no-stdin -n 2 --json --save counted -f $data/page.png "What?" > "$tmp/out" 2>&1
has "... and counts its tokens" "$(cat "$tmp/out")" '"height":300,"tokens":24}'
timeout $patience "$q" --model tests/data/vision/v0 --no-stdin -n 2 --json -f $data/page.png "What?" > "$tmp/out" 2>&1
has "... which a program without a tokenizer estimates by the model's limits" "$(cat "$tmp/out")" '"height":300,"tokens":24,"estimated":true}'
"$q" serve stop > /dev/null 2>&1
wait $server
[ -n "$demo" ] || exit $status
begin "$demo" --threads 1 --no-vision
has "a model without a vision tower refuses pictures in words that programs know" "$(post $data/page.png)" "does not support image input"
has "... with the option that left it out" "$(post $data/page.png)" "without its vision tower (--no-vision)"
exit $status
