#!/bin/sh
# What sentences name exists: tests that docs/log/holds.md names in its tables, and commands in messages of the program, README and docs.
status=0
check() {       # NAME FOUND MESSAGE
    [ "$2" = 0 ] && echo "ok $1" || { echo "not ok $1: $3"; status=1; }
}

# test_x__y is a function of a test, "script.sh: check" a check of that script.
while IFS= read -r name; do
    case $name in
    *.sh:*) cat "tests/pty/${name%%: *}" "tests/hub/${name%%: *}" "tests/remote/${name%%: *}" 2> /dev/null | grep -qF -- "${name#*.sh: }" ;;
    *) grep -rqE "^static void $name\(" tests --include='*.[ch]' ;;
    esac
    check "$name" $? "docs/log/holds.md names it, it is not there"
done << END
$(grep "^|" docs/log/holds.md |
    grep -oE '`(test_[a-z0-9_]+__[a-z0-9_]+|[a-z]+\.sh: [^`]+)`' | tr -d '`' | sort -u)
END

sh tests/checks.sh | cmp -s - docs/checks.md
check "docs/checks.md lists the tests that there are" $? "make checks writes it again"

# The texts in which users read commands, a line for each; of sources the string literals.
texts() {
    grep -rhoE '"([^"\\]|\\.)*"' src ui --include='*.[ch]'
    cat README.md docs/*.md docs/*/*.md config/*.def
}
subcommands=$(awk -F '"' '/^GROUP\("/ {group = $2} /^SUBCOMMAND\("/ {print group " " $2}' config/subcommands.def)
commands=$(sed -nE 's/^(COMMAND|ALIAS)\(([a-z]+),.*/\2/p' config/commands.def)
pages=$(sed -nE 's/.*"\/([a-z]+)".*/\1/p' src/serve/routes.c)
[ -n "$subcommands" ] && [ -n "$commands" ] && [ -n "$pages" ] || { echo "not ok no command was found in the tables"; status=1; }

# `q35chat GROUP NAME`, where GROUP or NAME is a word of the table.
while IFS= read -r words; do
    case $words in 'cannot write' | 'serve knows') continue ;; esac     # prose
    printf '%s\n' "$subcommands" | grep -qE -- "^${words% *} | ${words#* }\$" || continue
    printf '%s\n' "$subcommands" | grep -qxF -- "$words"
    check "q35chat $words" $? "a sentence names this command, config/subcommands.def does not have it"
done << END
$(texts | grep -oE 'q35chat [a-z]+[ ][a-z][a-z-]*' | cut -d ' ' -f 2- | sort -u)
END

# `/NAME`, a command of the chat, an address of the server, or a folder of the system.
for name in $(texts | sed -E 's/^"(\/[a-z]+ )/\1/' | tr -s ' `(),;:' '\n' | sed 's/[".?]*$//' | grep -xE '/[a-z]+' | tr -d / | sort -u); do
    case $name in dev | etc | proc | run | sys | tmp | usr) continue ;; esac
    case $name in props) continue ;; esac       # an address of llama.cpp's server
    case $name in words) continue ;; esac       # an example of the log
    printf '%s\n' "$commands" "$pages" | grep -qx -- "$name"
    check "/$name" $? "a sentence names this command, config/commands.def does not have it"
done
exit $status
