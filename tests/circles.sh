#!/bin/sh
# Fails for every circle of files.  NAME.c, NAME.cu and NAME.h are one node; it depends on the files whose headers it includes and whose functions it
# uses.  Functions are looked up in the objects below $BUILD (build): files that are not built have no calls.
#     tests/circles.sh [-v]         -v also prints the arrows of each circle
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
verbose=; [ "${1:-}" = -v ] && verbose=1
{
    grep -rHoE '^#include "[a-z_0-9/]+\.(h|cuh?)"' src ui kernels --include='*.[ch]' --include='*.cu' --include='*.cuh' |
        sed -E 's/^(.*)\.(c|h|cu|cuh):#include "(.*)\.[a-z]+"$/include \1 \3/'
    for file in $(find src ui kernels -name '*.c' -o -name '*.cu'); do
        [ -f "$BUILD/$file.o" ] && nm -P "$BUILD/$file.o" |
            awk -v at="${file%.c*}" '$2 == "T" || $2 == "W" {print "has", at, $1} $2 == "U" {print "uses", at, $1}'
    done
} | awk -v verbose="$verbose" '
function full(path) { return path ~ /^(kernels|ui|config)\// ? path : "src/" path }     # includes are relative to the root or to src
function arrow(a, b) { if (a != b && !((a, b) in seen)) { seen[a, b] = 1; to[a, ++n_to[a]] = b; nodes[a] = nodes[b] = 1 } }
$1 == "include" { arrow($2, full($3)) }
$1 == "has" { home[$3] = $2 }
$1 == "uses" { user[++n_uses] = $2; used[n_uses] = $3 }
function walk(a, mark,    i, b) {                               # everything that a reaches
    for (i = 1; i <= n_to[a]; i++) { b = to[a, i]; if (!((mark, b) in reaches)) { reaches[mark, b] = 1; walk(b, mark) } }
}
END {
    for (i = 1; i <= n_uses; i++) if (used[i] in home) arrow(user[i], home[used[i]])
    for (a in nodes) walk(a, a)
    for (a in nodes) if ((a, a) in reaches && !(a in done)) {
        circle = ""; n = 0
        for (b in nodes) if ((a, b) in reaches && (b, a) in reaches) { done[b] = 1; n++; circle = circle " " b; inside[b] = a }
        bad = 1
        print "not ok a circle of " n " files:" circle
        if (verbose) for (b in nodes) if (inside[b] == a) for (i = 1; i <= n_to[b]; i++) if (inside[to[b, i]] == a) print "    " b " -> " to[b, i]
    }
    if (!bad) print "ok no file depends on one that depends on it"
    exit bad
}'
