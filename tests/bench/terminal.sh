#!/bin/sh
# What the full-screen chat costs while an answer streams: bytes per token, the main thread's share of a core, time from key to echo.
# Goals: 60 bytes, 3 % at 100 tok/s, 20 ms.
. tests/pty/common.inc
. tests/pty/wire.inc
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
echo "== terminal, 80x24"
for how in '--draft 0' '--draft 2'; do
    forget
    at 80x24 $endless $how --max-tokens 600 << END
see ready: ready
type Tell me a story\\r
see an answer: Once upon
mark
sh the end: eval "\$answered 1"
cpu while it streams, $how
see all: cut off
bytes while it streams, $how: 1e9 590
END
done | sed -n 's/^ok while/while/p; /^not ok/p'
forget
at 80x24 $endless << END | sed -n 's/^ok a key/a key/p; /^not ok/p'
see ready: ready
echo a key while nothing runs: 50
type \\025Tell me a story\\r
see an answer: Once upon
echo a key while it answers: 70
END
forget
mkdir -p "$sessions"
{ echo '{"q35chat":1}'; awk 'BEGIN { for (i = 0; i < 10000; i++) { print "{\"role\":\"user\",\"content\":\"Question " i "\"}";
    print "{\"role\":\"assistant\",\"content\":\"one\\n\\ntwo\\n\\nthree\\n\\nfour\\n\\nfive\"}" } }'; } > "$sessions/long.jsonl"
at 80x24 --resume long --ctx 256k << END | sed -n 's/^ok a key/a key/p; /^not ok/p'
see ready: ready
echo a key below 100,000 rows: 50
END
exit $status
