#!/bin/sh
# Lists the instructions of the given PTX files that are slow on a GB10, one per line: "PART KERNEL INSTRUCTION".  These are all fp64
# instructions, of which it executes two per clock and multiprocessor, and conversions between 64-bit integers and floating point, which
# 64-bit integer divisions contain too.
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
