#!/bin/sh
# Prints a table of all kernels from the output of `nvcc -Xptxas -v` (the given files), then a sentence for each fault.  Faults are: a
# decode kernel (step_*.cu) that spills registers or has an instruction that is slow on a GB10 (tests/cuda_slow.sh, FILE.cu.o.slow), and
# more than 99 KiB of shared memory, the limit of a block on a GB10.
# ptxas does not see dynamic shared memory: a file that uses it says static_assert(BYTES <= 99 * 1024, ...), itself or in
# a .cuh that it includes.
[ $# -gt 0 ] || { echo "usage: tests/cuda_report.sh FILE.cu.o.ptxas..." >&2; exit 2; }
names=cat
! command -v c++filt > /dev/null || names='c++filt -p'
table=$(mktemp) || exit 1
trap 'rm -f "$table"' EXIT

awk '
function add() {
    if (kernel != "")
        printf "%-18s %-7s %4d %6d %6d %7d  %s\n", file, arch, regs, stack, spill, shared, kernel
    kernel = ""
}
FNR == 1 { add(); n = split(FILENAME, part, "/"); file = part[n]; sub(/\.cu\.o\.ptxas$/, ".cu", file) }
/Compiling entry function/ {
    add()
    split($0, quoted, "\x27")
    kernel = quoted[2]; arch = quoted[4]; regs = stack = spill = shared = 0
}
/bytes stack frame/ { stack += $1; spill += $5 + $9 }
/Used [0-9]+ registers/ {
    for (i = 1; i < NF; i++) {
        if ($(i + 1) ~ /^registers/) regs = $i
        if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/) shared = $i
    }
}
END { add() }' "$@" | $names | sed 's/(anonymous namespace):://g; s/_GLOBAL__N__[0-9a-z_]*:://g' | sort > "$table"

echo "file               arch    regs  stack  spill  shared  kernel"
cat "$table"
awk '
{ name = $7; for (i = 8; i <= NF; i++) name = name " " $i; at = name " (" $1 ", " $2 ")" }
$6 > 99 * 1024 { faults++; print "not ok " at " has " $6 " bytes of shared memory, a GB10 has 101376" }
$5 > 0 && /^step_/ { faults++; print "not ok " at " spills " $5 " bytes of registers" }
$5 > 0 && !/^step_/ { warnings++; print "warning: " at " spills " $5 " bytes of registers" }
$4 > 0 && $5 == 0 && /^step_/ { warnings++; print "warning: " at " has " $4 " bytes of stack" }
END {
    print NR " kernels, " faults + 0 " faults, " warnings + 0 " warnings"
    exit faults > 0 || NR == 0
}' "$table"
status=$?

slow=0
for log; do
    list=${log%.ptxas}.slow
    case ${log##*/} in
    step_* | embed.*)
        [ -e "$list" ] || { echo "not ok there is no $list"; status=1; }
        [ ! -s "$list" ] || sort "$list" | uniq -c | $names | awk '{ n = $1; $1 = ""; print "not ok decode kernel" $0 ", " n " times" }'
        slow=$((slow + $(cat "$list" 2> /dev/null | wc -l))) ;;
    esac
done
echo "$slow instructions of decode kernels in fp64 or converting 64-bit integers"
[ "$slow" -eq 0 ] || status=1

for log; do
    source=$(echo "$log" | sed 's/\.o\.ptxas$//; s|.*/\(kernels/cuda/\)|\1|; s|.*/\(src/backend/\)|\1|')
    grep -q 'extern __shared__' "$source" 2> /dev/null || continue
    headers=$(sed -n 's|^#include "\(kernels/cuda/.*\.cuh\)".*|\1|p' "$source")
    cat "$source" $headers | grep -q 'static_assert(.*<= 99 \* 1024' && continue
    echo "not ok $source has dynamic shared memory without a static_assert(BYTES <= 99 * 1024, ...)"
    status=1
done
exit $status
