#!/bin/sh
# PDF files: pages become pictures, their text goes along; what cannot be read is one sentence, and no child is left.
. tests/pty/common.inc
. tests/remote/replay.inc
for program in pdfinfo pdftoppm pdftotext; do
    command -v $program > /dev/null || { echo "skip pages of PDF files need poppler-utils"; exit 0; }
done
python3 tests/remote/pdf.py "$tmp/report.pdf" 3
python3 tests/remote/pdf.py "$tmp/long.pdf" 300
python3 tests/remote/pdf.py "$tmp/locked.pdf" 1 locked
head -c 300 "$tmp/report.pdf" > "$tmp/cut.pdf"
ask() {         # options: the answer in $out, what was said in $err, the status in $found
    timeout $patience "$q" --endpoint "$replay/sglang" --no-stdin --json "$@" hello > "$tmp/out" 2> "$tmp/err"
    found=$?
    out=$(cat "$tmp/out") err=$(cat "$tmp/err")
}
last() { tail -n 1 "$tmp/requests"; }
count() { last | grep -o "$1" | wc -l | tr -d ' '; }

ask -f "$tmp/report.pdf"
is "each page is a picture" "$found $(count 'data:image/png;base64,')" "0 3"
has "... of A4 at 150 dots an inch" "$out" 'report.pdf:3","width":1244,"height":1760'
has "... and the text goes along" "$(last)" "This is page 3"
ask -f "$tmp/report.pdf:2-3" --pdf pictures
is "pages can be chosen" "$found $(count 'data:image/png;base64,') $(count 'This is page')" "0 2 0"
ask -f "$tmp/report.pdf:2" --pdf text
is "the text alone" "$found $(count 'data:image/png;base64,') $(count 'This is page')" "0 0 1"
has "... of that page" "$(last)" "This is page 2"
ask -f "$tmp/report.pdf:4"
is "a page that is not there is refused" "$found $err" "2 q35chat: $tmp/report.pdf:4: there are pages 1 to 3"
ask -f "$tmp/long.pdf"
has "many pages must be chosen" "$err" "long.pdf has 300 pages; at most 20 go with a message: $tmp/long.pdf:1-20 chooses"
ask -f "$tmp/long.pdf:299-300" --pdf text
is "... of a long file, too" "$found $(count 'This is page')" "0 2"
ask -f "$tmp/locked.pdf"
has "a password is one sentence" "$err" "locked.pdf cannot be read as a PDF: it is damaged, has a password"
ask -f "$tmp/cut.pdf"
has "so is damage" "$found$err" "2q35chat: $tmp/cut.pdf cannot be read as a PDF"
is "no child is left" "$(ps -e -o args= | grep -c "pdf[a-z]* .*$tmp")" 0
[ -n "$demo" ] || exit $status
timeout $patience "$q" --model "$demo" --no-vision --no-stdin -f "$tmp/report.pdf:1" hello > "$tmp/out" 2> "$tmp/err"
has "a model that cannot see gets none of it" "$(cat "$tmp/err")" "without its vision tower"
timeout $patience "$q" --model "$demo" --no-vision --no-stdin -n 4 --pdf text -f "$tmp/report.pdf:1" hello > "$tmp/out" 2> "$tmp/err"
is "... but its text" "$?" 0
exit $status
