#!/bin/sh
# Which folder may include which.  Each row: a folder, then the folders that its files may include.  Each library is used in one place.
status=0
bad() { echo "not ok $*"; status=1; }

# FOLDER!NAME|NAME: the files of the folder whose names begin with none of these.
while read -r from allowed; do
    case $from in ''|'#'*) continue ;; esac
    files=$(find ${from%!*} -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' 2>/dev/null)
    case $from in *!*) files=$(echo "$files" | grep -vE "/(${from#*!})[^/]*\$") ;; esac
    [ -n "$files" ] || continue
    hits=$(grep -HnoE '^#include "[^"]+"' $files | grep -vE "\"($allowed)[^\"]*\"$")
    [ -z "$hits" ] && echo "ok $from includes only what it may" || bad "$from: $hits"
done <<'RULES'
src/base     base/
src/answer   base/|answer/|config/
src/text     base/|text/|config/
src/image    base/|image/
src/guide    base/|answer/form.h|text/pyjson.h|text/tokenizer.h|guide/|config/
kernels      base/(err|log).h|answer/token.h|kernels/
src/backend  base/|answer/machine.h|kernels/|backend/|config/
src/model    base/|kernels/[a-z_]*\.h|backend/dev.h|model/|config/
src/engine   base/|answer/|guide/guide.h|model/|backend/[a-z]*\.h|kernels/tensor.h|kernels/splitmix.h|engine/|config/
src/option   base/|answer/|option/|responder/responder.h|config/
src/session  base/|answer/|option/|session/|config/
src/tool     base/|option/|tool/
src/chat     base/|answer/|image/image.h|option/|session/|tool/|responder/responder.h|guide/form.h|chat/|config/
src/responder!remote|far base/|answer/|text/|image/image.h|guide/|engine/engine.h|option/|chat/answer.h|responder/|config/
src/responder/remote.c base/|answer/|image/image.h|guide/form.h|remote/|option/|responder/|config/
src/responder/far.c base/|answer/|remote/|engine/engine.h|responder/|config/
src/fetch    base/|fetch/|config/
src/remote   base/|answer/|fetch/http.h|remote/|config/
src/serve    base/|answer/|text/|guide/form.h|image/image.h|fetch/http.h|option/|session/|chat/|responder/responder.h|serve/|config/
src/prepare  base/|model/|backend/|kernels/tensor.h|kernels/number.h|engine/engine.h|engine/load.h|option/paths.h|fetch/|prepare/|config/
src/debug    base/|answer/|text/|image/|model/|backend/|engine/|debug/|config/
src/bench    base/|answer/|text/|kernels/[a-z_]*\.h|model/|backend/|engine/|bench/|config/
ui           base/|answer/|option/|session/|tool/|responder/(local|remote|responder).h|chat/|serve/|debug/|bench/|prepare/|ui/|config/
RULES

# The files of a conversation have an order (src/chat/state.h): each calls only those before it.
above=
for f in chat ahead resume steer turn titler calls summary asking files context branch saving state; do
    hits=$([ -z "$above" ] || grep -HnE "\\b($above)\\(" src/chat/$f.c)
    [ -z "$hits" ] && echo "ok chat/$f calls only what stands below it" || bad "chat/$f calls upward: $hits"
    above="${above:+$above|}$(sed -nE 's/^(const |struct |enum )*[a-z_0-9]+ \**([a-z_0-9]+)\(.*[^;]$/\2/p' src/chat/$f.c | paste -sd '|' -)"
done
# A contract is the same on every device: a header of kernels/ includes none of a device.
hits=$(grep -HnE '^#include "kernels/(cpu|cuda)/' kernels/*.h)
[ -z "$hits" ] && echo "ok contracts name no device" || bad "contracts: $hits"

# No program that we start gets a descriptor of ours: each is opened with its flag.  main() makes a missing stdin, stdout or stderr; the debug
# commands start no programs.
hits=$({ grep -rnE '\b(open|openat|socket|accept4|pipe2|eventfd|epoll_create1|timerfd_create|memfd_create|mkostemps?)\([^)]' \
            src ui --include='*.c' |
        grep -vE 'CLOEXEC|[a-z_]+->open\(|FLAGS|"/dev/null", modes'
    grep -rnE '\bfopen\([^;]*"[rwab+]*"\)|\b(creat|popen|tmpfile|pipe|accept|mkstemp|epoll_create|dup|system)\([^)]|F_DUPFD\b' \
            src ui --include='*.c' |
        grep -v "^src/debug/"; } | grep -vE '^[^:]*:[0-9]+: *(/\*|\*)|^[^:]*:[0-9]+:/\*')
[ -z "$hits" ] && echo "ok descriptors are opened with O_CLOEXEC" || bad "a descriptor would be inherited: $hits"

# Only the backend and the option tables know the names of devices; struct dev_caps says what a device can do.
hits=$(grep -rnE '"(cpu|cuda)"' src ui --include='*.[ch]' | grep -v '^src/backend/')
[ -z "$hits" ] && echo "ok backends are named by the backend alone" || bad "a backend is named: $hits"

# A step is the same on every device: nobody asks whether there is a table of its operations.
hits=$(grep -rnE '(dev|[^a-z_]d\)?)->step *([!=]=|\)|&&|\|\||\?|;)|![a-z_>.-]*dev->step\b' src ui kernels --include='*.[ch]' --include='*.cu')
[ -z "$hits" ] && echo "ok every device has steps" || bad "dev->step is asked for: $hits"

door() {        # HEADER-PATTERN ALLOWED-FILES
    hits=$(grep -rlE "^#include <($1)" src kernels ui 2>/dev/null | grep -vE "$2")
    [ -z "$hits" ] && echo "ok one door for <$1>" || bad "<$1> is included by: $hits"
}
door 'utf8proc' '^src/base/unicode\.c$'
door 'histedit|editline' '^ui/lineedit\.c$'
door 'curses|ncurses' '^ui/tui/term\.c$'
door 'md4c' '^ui/tui/render\.c$'
door 'cuda' '^(src/backend/cuda\.cu|kernels/cuda/)'
door 'jansson' '\.c$'
door 'curl/' '^src/fetch/http\.c$'
door 'xxhash' '^src/base/checksum\.c$'
door 'microhttpd' '^src/serve/web\.c$'
door 'png' '^src/image/decode_png\.c$'
door 'jpeglib|jerror' '^src/image/decode_jpeg\.c$'
door 'webp/' '^src/image/decode_webp\.c$'
door 'openssl/' '^src/fetch/digest\.c$'
door 'ini\.h' '^src/option/file\.c$'
# What is printed as JSON comes from base/json.c.  Files of our own, requests and replies may be written by jansson itself.
hits=$(grep -rnE '\bjson_dump[sbfd_]*\(' src ui --include='*.c' |
    grep -vE '^(src/(base/json|session/(record|list)|tool/child|responder/[a-z_]+|model/config|(remote|serve)/[a-z]+)|ui/tui/[a-z]+)\.c:')
[ -z "$hits" ] && echo "ok one writer of JSON that is printed" || bad "JSON is printed by: $hits"

# The full screen.  A window gets a struct host; only what stands above the table of windows knows the whole.
hits=$(grep -l '^#include "ui/tui/app.h"' $(find ui -name '*.[ch]') | grep -vE '^ui/tui/(app|tui|view)\.[ch]$')
[ -z "$hits" ] && echo "ok ui/tui/app.h is seen from above the windows only" || bad "ui/tui/app.h is included by: $hits"

# Its files make no circle: NAME.c and NAME.h are one thing, which includes others.
circle=$(grep -HoE '^#include "ui/tui/[a-z_]+\.h"' ui/tui/*.[ch] | sed -E 's|^ui/tui/([a-z_]+)\.[ch]:#include "ui/tui/([a-z_]+)\.h"|\1 \2|' |
    awk '$1 != $2' | tsort 2>&1 >/dev/null)
[ -z "$circle" ] && echo "ok the files of ui/tui make no circle" || bad "files of ui/tui include each other in a circle: $circle"

# Functions of keys are called through the table; other files call what a header declares.
for f in ui/tui/*.c; do
    for name in $(grep -E '^ ' $f | grep -oE '\bact_[a-z_]+\(' | sort -u | tr -d '('); do
        grep -qE "^(void $name\(|ACT\(${name#act_},)" $f || bad "$f calls $name() of another file"
    done
done

# Two files fit beside each other on a screen.  Tables of config/ are as wide as they must be; a byte within a character counts no column.
wide=$(find src ui kernels tests config \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.sh' -o -name '*.inc' -o -name '*.def' \) \
    ! -path 'config/*.def' -exec env LC_ALL=C awk '{gsub(/[\200-\277]/, "")} length > 150 {printf " %s:%d", FILENAME, FNR}' {} +)
[ -z "$wide" ] && echo "ok lines have at most 150 columns" || bad "lines of more than 150 columns:$wide"

# A function is a paragraph.  Kernels are as long as their loops must be.
long=$(find src ui -name '*.[ch]' -exec awk '
    /^{$/ {at = FNR}
    /^}$/ && FNR - at > 101 {printf " %s:%d (%d)", FILENAME, at, FNR - at - 1}' {} +)
[ -z "$long" ] && echo "ok functions have at most 100 lines" || bad "functions of more than 100 lines:$long"

# A file is a room of its own.  Those that may be small: a door, a table, a file that is compiled again with each commit.
small=$(find src ui -name '*.c' | grep -vE '^src/(backend/dev|base/checksum|bench/version|chat/commands|chat/state)\.c$' | xargs awk '
    function done_() { if (file != "" && n < 40) printf " %s (%d)", file, n }
    FNR == 1 {done_(); file = FILENAME; n = within = 0}
    {gsub(/\/\*([^*]|\*[^\/])*\*\//, "")}
    /\/\*/ {within = 1; if ($0 !~ /^[ \t]*\/\*/) n++; next}
    within {if (/\*\//) within = 0; next}
    /[^ \t]/ {n++}
    END {done_()}')
[ -z "$small" ] && echo "ok files have at least 40 lines of code" || bad "files of fewer than 40 lines of code:$small"

members() {     # FILE STRUCT MOST
    n=$(awk -v s="struct $2 {" '$0 == s {on = 1; next} /^};/ {on = 0} on && /;/ {n++} END {print n + 0}' $1)
    [ "$n" -gt 0 ] && [ "$n" -le $3 ] && echo "ok struct $2 has $n members" || bad "struct $2 of $1 has $n members, at most $3 are wanted"
}
members src/chat/state.h chat 18
members ui/tui/app.h app 25
members ui/tui/window.h host 25
exit $status
