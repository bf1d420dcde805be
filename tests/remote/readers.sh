#!/bin/sh
# Clients that do not read what they have asked for: they hold nobody up, and lose nothing.
. tests/remote/serve.inc
long=900                                # tokens of 700 bytes: more than what fits into a socket and what may be unread, 540 KiB at most
readers=3 places=2
[ -z "$SAN" ] || readers=2 places=1     # slow
patience=$((5 * patience))              # thousands of tokens, where others compute as well
begin "$small" --conversations $places --threads 1 --send-timeout 0
is "answers that are not read wait, more of them than there are places, and others are answered" "$(asks readers $readers $long "$q")" read
is "... and nothing is left of them" "$(figure running) $(figure waiting) $(figure unread) $(figure requests_unread_total)" "0 0 0 0"
"$q" serve stop
wait $server
begin "$small" --conversations 1 --threads 1 --send-timeout 1
is "who never reads is told so" "$(asks reads_never $long)" "nothing of the answer could be sent for 1 s, since it was not read: it ends here"
is "... and holds nothing" "$(figure running) $(figure waiting) $(figure unread)" "0 0 0"
exit $status
