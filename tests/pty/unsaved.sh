#!/bin/sh
# Line mode: leaving a conversation that could not be saved: /quit asks once, and every way out says what is not saved, with status 1.
. tests/pty/common.inc
. tests/pty/terminal.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

# No file of it becomes longer than 512 bytes, as on a disk that is full.
printf '#!/bin/sh\ntrap "" XFSZ\nulimit -f 1\nexec "%s" "$@"\n' "$q" > limited
chmod +x limited
q=$tmp/limited
long=$(printf '%600s' x | tr ' ' a)

fill() {        # what does not fit
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

exit $status
