#!/bin/sh
# The chat killed with -9 while it answers, KILLS times (5) at random moments: at most a second of text is lost.
. tests/pty/common.inc
trap 'rm -rf "$tmp"' EXIT
if [ -z "$demo" ]; then
    echo "skip $0: assets/demo is not there"
    exit 0
fi
mkdir "$tmp/kills"
"$BUILD/tests/pty/kill" "${KILLS:-5}" "$q" "$demo" "$tmp/kills" || status=1
exit $status
