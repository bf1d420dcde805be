#!/bin/sh
# Prints docs/checks.md: what the tests check, in the words of their names.  `make checks` writes the page, tests/golden/named.sh compares.
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
cat <<'END'
# What the tests check

`make checks` writes this page from the names of the tests: `test_pane__a_search_goes_round` in `tests/unit/test_pane.c`
is "a search goes round" below. Scripts are listed with the purpose that their first lines state.
END
for folder in unit kernels golden fuzz; do
    printf '\n## tests/%s\n\n| test | checks |\n| --- | --- |\n' $folder
    for f in tests/$folder/test_*.c; do
        name=${f##*/test_}
        checks=$(sed -nE 's/^static void test_[a-z0-9]+(_[a-z0-9]+)*__([a-z0-9_]+)\(.*/\2/p' "$f" | tr '_' ' ' | paste -sd ';' - | sed 's/;/; /g')
        [ -n "$checks" ] && printf '| `%s` | %s |\n' "${name%.c}" "$checks"
    done
done
for folder in pty remote hub golden; do
    printf '\n## Scripts of tests/%s\n\n| script | purpose |\n| --- | --- |\n' $folder
    for f in tests/$folder/*.sh; do
        purpose=$(awk 'NR > 1 && /^# ?/ {sub(/^# ?/, ""); printf "%s ", $0; next} NR > 1 {exit}' "$f" | sed 's/|/\\|/g; s/  */ /g; s/ $//')
        printf '| `%s` | %s |\n' "${f##*/}" "$purpose"
    done
done
