#!/bin/sh
# Prints every static function of C that has the name of a function which other files can call: NAME, the static's files, the other's file.  Such a
# name misleads code browsers, debuggers and grep.  Ends with 1 if there is one.  CUDA code is left out: it has the names of its definition in C.
#     tests/names.sh [FOLDER ...]
cd "$(dirname "$0")/.." || exit 1
[ $# -gt 0 ] || set -- src ui kernels
find "$@" -name '*.[ch]' | sort | tr '\n' '\0' | xargs -0 env LC_ALL=C awk '
# The first line of a definition begins in the first column and has NAME( in it; the body follows as { in the first column, or on the line itself.
FNR == 1 { name = "" }
/^[a-z_].*[a-z_0-9]\(/ && !/^(typedef|struct [a-z_0-9]+ {|extern|enum|union)/ {
    line = $0
    gsub(/__attribute__\(\(.*\)\)/, "", line)
    if (!match(line, /[A-Za-z_0-9]+\(/)) next
    name = substr(line, RSTART, RLENGTH - 1); is_static = /^static /
    if (line ~ /\) *\{ .*\}$/) found()
}
$0 == "{" && name != "" { found() }
/;[ \t]*(\/\*.*)?$/ && /^[a-z]/ { name = "" }
function found() {
    if (!is_static) world[name] = world[name] " " FILENAME
    else statics[name] = statics[name] " " FILENAME
    name = ""
}
END { for (name in statics) if (name in world) { bad = 1; print name ":" statics[name] "; global in" world[name] | "sort" }
    close("sort"); exit bad }' || { echo "not ok static functions have the names of others, see above"; exit 1; }
echo "ok no static function has the name of one that other files can call"
