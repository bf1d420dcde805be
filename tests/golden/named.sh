#!/bin/sh
# Every test that docs/testing.md names in its tables exists: test_x__y in the tests, "script.sh: check" in that script.
status=0
while IFS= read -r name; do
    case $name in
    *.sh:*) cat "tests/pty/${name%%: *}" "tests/hub/${name%%: *}" "tests/remote/${name%%: *}" 2> /dev/null | grep -qF -- "${name#*.sh: }" ;;
    *) grep -rqE "^static void $name\(" tests --include='*.[ch]' ;;
    esac && echo "ok $name" || { echo "not ok $name: docs/testing.md names it, it is not there"; status=1; }
done << END
$(sed -n '/^## What holds/,/^## Screens/p' docs/testing.md | grep '^|' |
    grep -oE '`(test_[a-z0-9_]+__[a-z0-9_]+|[a-z]+\.sh: [^`]+)`' | tr -d '`' | sort -u)
END
exit $status
