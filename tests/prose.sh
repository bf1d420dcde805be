#!/bin/sh
# Plain English: comments that begin with a word that no sentence about a function begins with, and words in messages and docs that read like a
# translation.  Prints each with its place.  Ends with 1 if there is one.
#     tests/prose.sh [FILE ...]
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
[ $# -gt 0 ] || set -- README.md $(find src ui kernels tests config -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' | sort) \
    $(ls docs/*.md docs/design/*.md | grep -v docs/checks.md)
status=0
report() {      # NAME, hits on stdin
    hits=$(cat)
    [ -z "$hits" ] && echo "ok $1" || { echo "$hits"; echo "not ok $1: $(echo "$hits" | wc -l)"; status=1; }
}
code() { printf '%s\n' "$@" | grep -E '\.(c|h|cu|cuh|def)$'; }
pages() { printf '%s\n' "$@" | grep -E '\.md$' | grep -v docs/checks.md; }

# A comment is not a fragment that depends on the name below it.
code "$@" | tr '\n' '\0' | xargs -0 grep -HnE '/\* *(Of|Likewise|What|Where|Whoever|As|Also)\b' /dev/null |
    grep -vE '/\* *(As (long|soon|far|many|much|well|if)\b|Where .*[.?]$)' | report "comments begin with what is described"

words='anew|of late|by lot|in turns|goes on|went on|go on with|stands there|stood there|is told|are told|was told|cannot be had|of that kind'
words="$words|whoever|for ever|hears? it|no more than that|so many of|tells? nobody"
# Strings that users see, and docs.
code "$@" | grep -E '^(src|ui|config)/' | tr '\n' '\0' |
    xargs -0 awk -v words="$words" '{
        line = $0
        while (match(line, /"([^"\\]|\\.)*"/)) {
            text = substr(line, RSTART, RLENGTH); line = substr(line, RSTART + RLENGTH)
            if (match(text, "(^|[^a-z])(" words ")([^a-z]|$)")) print FILENAME ":" FNR ": " text
        }
    }' | report "messages have words that a man page would use"
pages "$@" | tr '\n' '\0' | xargs -0 grep -HnE "(^|[^a-z])($words)([^a-z]|\$)" /dev/null | report "docs have words that a man page would use"
exit $status
