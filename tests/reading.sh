#!/bin/sh
# A test of reading: prints functions chosen by chance, for somebody who has not seen them and says what each does.
#     tests/reading.sh SEED [N]           N questions (60): file and line, comment, name, and the first three lines of the body
#     tests/reading.sh SEED [N] whole     the same functions whole, to check the answers by
# Functions of four lines and more, from all folders of src, ui and kernels in turn, so that small folders are asked about as well.
cd "$(dirname "$0")/.." || exit 1
seed=${1:?"usage: tests/reading.sh SEED [N] [whole]"} n=${2:-60} whole=${3:+1}
find src ui kernels \( -name "*.c" -o -name "*.cu" -o -name "*.cuh" \) | LC_ALL=C sort |
    xargs env LC_ALL=C awk -v seed="$seed" -v n="$n" -v whole="$whole" '
function close_function() {
    if (body >= 4) {
        if (!(folder in count)) folders[++n_folders] = folder
        asked[folder, ++count[folder]] = first text; answer[folder, count[folder]] = first rest
    }
}
FNR == 1 { folder = FILENAME; sub(/\/[^\/]*$/, "", folder); before = ""; open = 0 }
open && /^}/ { rest = rest $0 "\n"; close_function(); open = 0; before = ""; next }
open { body++; rest = rest $0 "\n"; if (body <= 3) text = text $0 "\n"; next }
$0 == "{" && before ~ /\)[^;]*\n$/ {
    open = 1; body = 0; first = "== " FILENAME ":" FNR "\n" before "{\n"; text = rest = ""
    next
}
/^$/ { before = ""; next }
{ before = before $0 "\n" }
END {
    srand(seed)
    for (i = 1; i <= n; i++) {
        folder = folders[1 + (i - 1) % n_folders]
        for (tries = 0; tries < 100 && ((k = 1 + int(rand() * count[folder])) SUBSEP folder) in taken; tries++) ;
        taken[k SUBSEP folder] = 1
        print whole ? answer[folder, k] : asked[folder, k]
    }
}'
