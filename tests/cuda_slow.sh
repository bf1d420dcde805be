#!/bin/sh
# Which instructions of the PTX files given are slow on a GB10, one line each: "PART KERNEL INSTRUCTION".  That is all that is in fp64, of which it
# does two a clock and multiprocessor, and what converts 64-bit integers to or from floating point, as divisions of 64-bit integers do, too.
[ $# -gt 0 ] || { echo "usage: tests/cuda_slow.sh FILE.ptx..." >&2; exit 2; }
exec awk '
$1 == ".target" { part = $2; sub(/,.*/, "", part) }
/\.(entry|func)[ \t]/ { kernel = $0; sub(/\(.*/, "", kernel); sub(/^.*[ \t)]/, "", kernel) }
{
    op = $1 ~ /^@/ ? $2 : $1
    sub(/;$/, "", op)
    if (op ~ /^[a-z]/ && (op ~ /\.f64(\.|$)/ || op ~ /^cvt.*\.[su]64\.b?f[0-9]/ || op ~ /^cvt.*\.b?f[0-9]+\.[su]64/ || op ~ /^(div|rem)\.[su]64/))
        print part, kernel, op
}' "$@"
