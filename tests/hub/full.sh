#!/bin/sh
# A disk that is too small, and one that fills up during a download: a small tmpfs, which needs a mount namespace.
if [ -z "$INSIDE" ]; then
    unshare -rm true 2> /dev/null || { echo "skip a file system of our own cannot be mounted here"; exit 0; }
    INSIDE=1 exec unshare -rm sh "$0"
fi
. tests/hub/common.inc
mkdir "$tmp/small"
mount -t tmpfs -o size=9m none "$tmp/small" || { echo "skip no tmpfs can be mounted here"; exit 0; }
export HF_HUB_CACHE=$tmp/small/hub
fill() { head -c "$1" /dev/zero > "$tmp/small/filler"; }

fill 6000000
"$q" model get demo/bytes > /dev/null 2> "$tmp/err"
is "too small: the status" $? 1
has "too small: both numbers" "$(cat "$tmp/err")" "0.01 GB are to be downloaded to $tmp/small/hub/models--demo--bytes, which has 0.00 GB free"
is "too small: nothing was begun" "$(ls "$tmp/small")" filler
rm "$tmp/small/filler"

hub set '{"pace": {"bytes_s": 400000}}'
"$q" model get --range 1 demo/bytes > /dev/null 2> "$tmp/err" &
until [ "$(find "$tmp/small" -name '*.journal' | wc -l)" -gt 2 ]; do kill -0 $! 2> /dev/null || break; sleep 0.02; done
fill 9000000 2> /dev/null
wait $!
is "full on the way: the status" $? 1
has "full on the way: a sentence with the file" "$(cat "$tmp/err")" "No space left on device"
is "full on the way: one line" "$(wc -l < "$tmp/err")" 1
rm "$tmp/small/filler"
hub set '{}'
"$q" model get demo/bytes > /dev/null 2> "$tmp/err"
is "with space again: it ends well" "$? $(cat "$tmp/err")" "0 "
is "with space again: the files are right" "$(diff -r "$tmp/small/hub/models--demo--bytes/snapshots/"* "$many" && echo same)" same
umount "$tmp/small"
exit $status
