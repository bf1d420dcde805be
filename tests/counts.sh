#!/bin/sh
# Counts the code: lines (neither blank nor comment), files, functions, for src, ui, kernels, config and each of their folders.
#     tests/counts.sh [FOLDER ...]
# A file's median is over .c and .cu.  A function is a body that begins with { in the first column, or one that fits on one line; headers count.
cd "$(dirname "$0")/.." || exit 1
[ $# -gt 0 ] || set -- src ui kernels config
find "$@" \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' \) | sort | tr '\n' '\0' | xargs -0 env LC_ALL=C awk '
function code(s,    out, i, two) {              # the line without comments; a string stays, whatever it holds
    out = ""
    while (s != "") {
        if (within) {
            i = index(s, "*/")
            if (!i) return out
            s = substr(s, i + 2); within = 0
            continue
        }
        if (!match(s, /["\047]|\/[*\/]/)) return out s
        out = out substr(s, 1, RSTART - 1)
        two = substr(s, RSTART, 2)
        s = substr(s, RSTART)
        if (two == "//") return out
        if (two == "/*") { within = 1; s = substr(s, 3) }
        else if (match(s, /^"([^"\\]|\\.)*"/) || match(s, /^\047([^\047\\]|\\.)*\047/)) {
            out = out substr(s, 1, RLENGTH); s = substr(s, RLENGTH + 1)
        } else { out = out substr(s, 1, 1); s = substr(s, 2) }
    }
    return out
}
function put(key, n) { functions[key]++; bodies[key, n]++; if (n <= 3) short[key]++; if (n > longest[key]) longest[key] = n }
function function_of(n) { put(folder, n); if (root != folder) put(root, n); put("all", n) }
function lines_of(key, n) { files[key]++; lines[key] += n; if (is_room) { rooms[key]++; sizes[key, n]++; if (n > largest[key]) largest[key] = n } }
function end_file() { if (FNR_of) { lines_of(folder, here); if (root != folder) lines_of(root, here); lines_of("all", here) } }
function median(table, key, count, most,    n, seen) { for (n = 0; n <= most; n++) if (2 * (seen += table[key, n]) >= count) return n; return 0 }
function row(key) {
    printf "%-18s %6d %6d %7d %7d %7d %6.0f %% %7d\n", key, lines[key], files[key], median(sizes, key, rooms[key], largest[key]), functions[key],
           median(bodies, key, functions[key], longest[key]), functions[key] ? 100 * short[key] / functions[key] : 0, longest[key]
}
FNR == 1 {
    end_file()
    FNR_of = 1; here = within = open = 0
    folder = FILENAME; sub(/\/[^\/]*$/, "", folder)
    root = folder; sub(/\/.*/, "", root)
    is_room = FILENAME ~ /\.(c|cu)$/
    if (!(folder in known)) { known[folder] = 1; order[++n_folders] = folder }
    if (!(root in known)) { known[root] = 1; order[++n_folders] = root }
}
{
    s = code($0)
    if (s ~ /^[ \t]*$/) next
    here++
    if (s == "{") { open = 1; body = 0 }
    else if (open && s ~ /^}/) { function_of(body); open = 0 }
    else if (open) body++
    else if (s ~ /^[a-z_].*[a-z_0-9]\(.*\) *\{ .*\}$/) function_of(1)
}
END {
    end_file()
    printf "%-18s %6s %6s %7s %7s %7s %8s %7s\n", "", "lines", "files", "median", "funcs", "median", "<= 3", "longest"
    for (i = 1; i <= n_folders; i++) row(order[i])
    row("all")
}'
