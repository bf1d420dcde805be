#!/bin/sh
# README and docs agree with the Makefile; their links and the functions that they name exist; no figure is typed twice.
status=0
pages="README.md $(ls docs/*.md docs/*/*.md)"
check() {       # STATUS NAME MESSAGE
    [ "$1" = 0 ] && echo "ok $2" || { echo "not ok $2: $3"; status=1; }
}
targets=$(sed -n 's/^\([a-z0-9]*\):[^#]*## .*/\1/p' Makefile)
for t in $targets; do
    grep -q "\`make [^|]*\b$t\b" docs/CONTRIBUTING.md
    check $? "docs/CONTRIBUTING.md has make $t" "it does not"
done
for t in $(grep -ohE '(`|^)make [a-z0-9]+' $pages | sed 's/.*make //' | sort -u); do
    echo "$targets help" | tr ' ' '\n' | grep -qx "$t"
    check $? "make $t exists" "a page names it"
done
for f in $pages; do
    for link in $(grep -ohE '\]\([^)#]+' "$f" | tr -d '](' | grep -v '^http'); do
        [ -e "$(dirname "$f")/$link" ]
        check $? "$f: $link is there" "it is missing"
    done
done

# Figures of README, faq and manual that docs/performance.md has as "today" or as projections; its measured ones are in the log.
for figure in $(grep -E '^\| q35chat' README.md | cut -d '|' -f 3 | grep -oE '[0-9][0-9,.]*[0-9]'); do
    grep -qE "[^0-9.,]$(echo "$figure" | sed 's/\./\\./g')([^0-9.,]|[.,] |\$)" docs/performance.md
    check $? "README quotes $figure" "docs/performance.md does not have it"
done
for figure in $(sed -n '/^## Figures/,/^## A Spark/p' docs/performance.md | grep '^|' | cut -d '|' -f 3 | grep -oE '[0-9]+[.][0-9]+'); do
    grep -qF -- "$figure" docs/log/*.md
    check $? "docs/performance.md quotes $figure" "no measurement of docs/log has it"
done
# docs/one-token.md: `FILE:FUNCTION`, a definition in a .c file or a row of a .def table.
rows=$(grep -o '^| `[^`]*:[^`]*`' docs/one-token.md | tr -d '|` ')
[ -n "$rows" ] || { echo "not ok docs/one-token.md names no function"; status=1; }
for row in $rows; do
    f=${row%%:*} name=${row#*:}
    if grep -qE "^[a-zA-Z].*\\b$name\\(.*[^;]\$|^[A-Z]+\\($name[,)]" "$f" 2>/dev/null; then echo "ok docs/one-token.md: $row is there"; else
        echo "not ok docs/one-token.md names $name, which $f does not define"; status=1
    fi
done
# docs/architecture.md: what to touch for what.
paths=$(sed -n '/^## What to touch/,$p' docs/architecture.md | grep '^|' | grep -oE '`[a-z_]+/[^`]*`|`kernels`' | tr -d '`' | sort -u)
[ -n "$paths" ] || { echo "not ok docs/architecture.md tells no file to touch"; status=1; }
for path in $paths; do
    [ -e "$path" ] && echo "ok docs/architecture.md: $path is there" || { echo "not ok docs/architecture.md: $path is missing"; status=1; }
done
# Prose has at most 120 columns, so that a difference shows what changed; tables and code are as wide as they must be.
for f in $pages; do
    wide=$(LC_ALL=C sed 's/[\x80-\xBF]//g' "$f" | awk '/^```/ { code = !code } !code && !/^\|/ && !/^    / && length > 120 { printf " %d", NR }')
    [ -z "$wide" ] && echo "ok $f has at most 120 columns" || { echo "not ok $f has more than 120 columns in line$wide"; status=1; }
done

# A page that a newcomer is sent to fits a quarter of an hour; references do not.
for f in $pages; do
    case $f in *reference.md | docs/log/* | docs/checks.md | docs/formats.md | docs/kernels.md) continue ;; esac
    [ "$(wc -l < "$f")" -le 150 ]
    check $? "$f has at most 150 lines" "it has $(wc -l < "$f")"
done
exit $status
