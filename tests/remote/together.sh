#!/bin/sh
# A server answers several requests at once, each as if it were alone; more of them wait.
. tests/remote/serve.inc
begin "$small" --conversations 3 --threads 1
is "three answers at once are those that each is alone" "$(asks together 3 3)" 3
is "of five, two wait" "$(asks together 5 3)" 3
waits_for running 0
is "... and nothing is left of them" "$(figure running) $(figure waiting)" "0 0"
"$q" serve stop
wait $server
begin "$small" --conversations 1 --threads 1
is "a server of one conversation answers one by one" "$(asks together 2 1)" 1
exit $status
