#!/bin/sh
# README and docs agree with the Makefile; their links and the functions that they name exist; the README quotes docs/measurements.md.
status=0
targets=$(sed -n 's/^\([a-z0-9]*\):[^#]*## .*/\1/p' Makefile)
for t in $targets; do
    if grep -q "\`make [^|]*\b$t\b" README.md || grep -q "^make $t\b" README.md; then echo "ok README has make $t"; else
        echo "not ok README does not have make $t"; status=1
    fi
done
for t in $(grep -ohE '(`|^)make [a-z0-9]+' README.md docs/*.md | sed 's/.*make //' | sort -u); do
    if echo "$targets" | grep -qx "$t" || [ "$t" = help ]; then echo "ok make $t exists"; else
        echo "not ok make $t is named and does not exist"; status=1
    fi
done
for f in README.md docs/*.md; do
    for link in $(grep -ohE '\]\([^)#]+\)' "$f" | tr -d '])(' | grep -v '^http'); do
        [ -e "$(dirname "$f")/$link" ] && echo "ok $f: $link is there" || { echo "not ok $f: $link is missing"; status=1; }
    done
done
for figure in $(sed -n '/^## Figures/,/^## Make/p' README.md | grep '^|' | cut -d '|' -f 3 | grep -oE '[0-9][0-9,]*\.[0-9]+|[0-9]+,[0-9]+'); do
    if grep -qF -- "$figure" docs/measurements.md; then echo "ok README quotes $figure"; else
        echo "not ok README quotes $figure, which is not in docs/measurements.md"; status=1
    fi
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
paths=$(sed -n '/^## What to touch/,/^## Decisions/p' docs/architecture.md | grep '^|' | grep -oE '`[a-z_]+/[^`]*`|`kernels`' | tr -d '`' | sort -u)
[ -n "$paths" ] || { echo "not ok docs/architecture.md tells no file to touch"; status=1; }
for path in $paths; do
    [ -e "$path" ] && echo "ok docs/architecture.md: $path is there" || { echo "not ok docs/architecture.md: $path is missing"; status=1; }
done
# Prose has at most 120 columns, so that a difference shows what changed; tables and code are as wide as they must be.
for f in README.md docs/*.md; do
    wide=$(LC_ALL=C sed 's/[\x80-\xBF]//g' "$f" | awk '/^```/ { code = !code } !code && !/^\|/ && !/^    / && length > 120 { printf " %d", NR }')
    [ -z "$wide" ] && echo "ok $f has at most 120 columns" || { echo "not ok $f has more than 120 columns in line$wide"; status=1; }
done
exit $status
