#!/bin/sh
# Rates of `q35chat model get` from the test hub on this machine: with hashing, against hashing alone; and over a link that loses packets.
# MB=2000 sets the size, DIR=/dev/shm the place (elsewhere the disk would be measured).  The link is simulated by the hub (tests/hub/hub.py),
# since netem is rarely available.
MB=${MB:-1000}
cd "$(dirname "$0")/../.." || exit 1
TMPDIR=${DIR:-/dev/shm}
export TMPDIR
. tests/hub/common.inc
mkdir -p "$tmp/root/bench/large" "$tmp/root/bench/link"
head -c $((MB * 500000)) /dev/urandom > "$tmp/root/bench/large/model-00001-of-00002.safetensors"
head -c $((MB * 500000)) /dev/urandom > "$tmp/root/bench/large/model-00002-of-00002.safetensors"
head -c 25000000 /dev/urandom > "$tmp/root/bench/link/model.safetensors"

measure() { # NAME COMMAND...: wall time and the program's own processor time
    python3 - "$@" <<'END'
import resource, subprocess, sys, time
name, mb, *command = sys.argv[1:]
start = time.time()
subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
wall, r = time.time() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
cpu, mb = r.ru_utime + r.ru_stime, float(mb)
print(f"| {name} | {mb:.0f} MB | {wall:.2f} s | {mb / wall:.1f} MB/s | {1000 * cpu / mb:.2f} s |", flush=True)
END
}
echo "| what | bytes | time | rate | processor time a GB |"
echo "| --- | --- | --- | --- | --- |"
"$q" model get bench/large > /dev/null || exit 1       # the hub hashes its files when they are asked for first
measure "hashing alone (\`--check\`, two files at a time)" "$MB" "$q" model get --check bench/large
for n in 1 2 8; do
    rm -rf "$tmp/hf"
    measure "download, hashed as it comes, $n connections" "$MB" "$q" model get --connections $n bench/large
done
hub set '{"link": {"bytes_s": 2500000, "rtt_s": 0.05, "loss": 0.01}}'
for n in 1 8 16; do
    rm -rf "$tmp/hf"
    measure "a link of 2.5 MB/s, 50 ms, 1 % loss, $n connections" 25 "$q" model get --range 1 --connections $n bench/link
done
exit $status
