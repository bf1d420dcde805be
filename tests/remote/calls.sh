#!/bin/sh
# Calls of many tools in many steps: none missing, doubled, malformed or raw; of a scripted engine, and of a model that is drawn from at random.
# LONG=1: 46 tools, 12 steps, 120 calls.
. tests/remote/serve.inc
[ -n "$demo" ] || { echo "skip calls need the demo model"; exit 0; }
sizes="9 3 15" all=15
[ -z "${LONG-}" ] || { sizes="46 12 120" all=120; }
calls() { timeout $((20 * patience)) python3 tests/remote/calls.py "$socket" $1 $sizes 2> "$tmp/faults"; }

begin "$demo" --ctx 65536
is "calls at random are whole and fit their schemas" "$(calls random)" "$all calls, 0 faults"
cut -c1-600 "$tmp/faults"
end
if [ -x "$BUILD/tests/remote/scripted" ]; then
    q=$BUILD/tests/remote/scripted
    python3 tests/remote/calls.py script $sizes > "$tmp/script"
    export SCRIPT="$tmp/script"
    begin assets/demo
    is "calls of a script come as they are written" "$(calls scripted)" "$all calls, 0 faults"
    cut -c1-600 "$tmp/faults"
    end
else
    echo "skip make $BUILD/tests/remote/scripted"
fi
exit $status
