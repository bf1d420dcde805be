#!/bin/sh
# `make spark` against the test hub: an INT4 repository and its FP8 donor become a hybrid that answers one question.  Packages and building
# are tested by tests/roots.sh.
. tests/hub/common.inc
out=$tmp/data/q35chat/models/small-hybrid
mkdir -p "$tmp/bin" "$tmp/proc"
pair
unset OUT QUESTION SKIP DRY_RUN GO INT4 FP8 PROC MAKEFLAGS MAKELEVEL
spark() { env MODEL=small INT4=demo/int4 FP8=demo/fp8 QUESTION=hello "$@" > "$tmp/said" 2> "$tmp/err"; }

spark GO=1 sh config/spark.sh --dry-run
is "a dry run ends well" "$? $(cat "$tmp/err")" "0 "
is "it names every step" "$(sed -n 's/^== //p' "$tmp/said" | tr '\n' ' ')" "check packages build get hybrid verify ask "
has "and what each would do" "$(cat "$tmp/said")" "would run: $q model build-hybrid --int4 demo/int4 --fp8 demo/fp8 --out $out"
is "and does nothing of it" "$(hub get list) $(ls "$tmp/data" "$tmp/hf" 2> /dev/null)" "0 "
spark make spark BUILD="$BUILD" DRY_RUN=1 SKIP="check packages build get hybrid verify"
has "make spark hands its settings on" "$(cat "$tmp/said")" "would run: $q --model $out hello"
is "steps are left out when told so" "$(grep -c ': skipped$' "$tmp/said")" 6
MODEL=large sh config/spark.sh > "$tmp/said" 2> "$tmp/err"
is "a model that is not known" "$? $(cat "$tmp/err")" \
    "1 make spark knows the models 122b and 35b; MODEL=large also needs INT4=ORG/NAME and FP8=ORG/NAME."

if [ -z "$(sh config/gpu.sh)" ]; then
    spark sh config/spark.sh
    is "without a GPU: it stops" $? 1
    has "without a GPU: it says what is missing" "$(cat "$tmp/said")" "there is no NVIDIA GPU, or no driver for it"
    has "without a GPU: it offers the demo" "$(cat "$tmp/err")" "\`make run\` chats with the small demo model on any machine"
    is "without a GPU: nothing was downloaded" "$(hub get list)" 0
else
    echo "skip a machine without a GPU: this one has one"
fi

# nvidia-smi and /proc of a Spark with a weak power supply and full memory.
cat > "$tmp/bin/nvidia-smi" <<'END'
#!/bin/sh
case $1 in
*=compute_cap) echo 12.1 ;;
*=name) echo NVIDIA GB10 ;;
*=driver_version) echo 580.95.05 ;;
*=clocks.sm) echo 611 ;;
*=clocks.max.sm) echo 3003 ;;
*=clocks_event_reasons.active) echo "${REASONS:-0x0000000000000001}" ;;
*=pstate) echo P0 ;;
*=power.draw) echo 11.40 ;;
*=temperature.gpu) echo 51 ;;
*) echo "[N/A]" ;;
esac
END
chmod +x "$tmp/bin/nvidia-smi"
meminfo() { printf 'MemTotal: 125513728 kB\nMemFree: %s kB\nMemAvailable: %s kB\nCached: %s kB\n' "$1" "$2" "$3" > "$tmp/proc/meminfo"; }
check() { env PATH="$tmp/bin:$PATH" PROC="$tmp/proc" SKIP="packages build get hybrid verify ask" \
    "$@" sh config/spark.sh > "$tmp/said" 2> "$tmp/err"; }
meminfo 120000000 121000000 900000
check GO=1
has "a Spark: the driver" "$(cat "$tmp/said")" "NVIDIA GB10, compute capability 12.1, driver 580.95.05"
has "a Spark: memory" "$(cat "$tmp/said")" "115 of 119 GiB are available"
has "a Spark: power" "$(cat "$tmp/said")" "state P0, 11.40 W, 51 degrees, not throttled"
check GO=1 REASONS=0x0000000000000080
has "too little power" "$(cat "$tmp/said")" "too little power slows the GPU"
check GO=1 REASONS=0x0000000000000020
has "too hot" "$(cat "$tmp/said")" "heat slows the GPU, 51 degrees"
check GO=1 REASONS="[N/A]"
has "a reason that is not told" "$(cat "$tmp/said")" "nvidia-smi does not show whether the GPU is throttled"
meminfo 20000000 110000000 88000000
check GO=1
has "a full page cache" "$(cat "$tmp/said")" "83 GiB are file cache"
meminfo 20000000 30000000 8000000
check
is "memory in use: the status" $? 1
has "memory in use: both numbers" "$(cat "$tmp/said")" "28 of 119 GiB are available and 122b needs 86 GiB (weights, 256k tokens of context, a margin)"
rm "$tmp/proc/meminfo"
check GO=1
has "a memory that is not told" "$(cat "$tmp/said")" "$tmp/proc/meminfo cannot be read"

hub set '{"status": {"where": "resolve", "code": 403}}'
spark GO=1 SKIP="packages build" sh config/spark.sh
is "a hub that fails: the status" $? 1
has "a hub that fails: what to do" "$(cat "$tmp/err")" "make spark stopped at \"get\": the download failed; what was downloaded stays"
hub set '{}'
spark GO=1 SKIP="packages build" sh config/spark.sh
is "then the whole way" $? 0
has "the model is downloaded" "$(cat "$tmp/said")" "$tmp/hf/hub/models--demo--int4/snapshots/"
has "the hybrid is made" "$(cat "$out/q35chat-provenance.json")" '"repo": "demo/fp8"'
has "it is verified" "$(cat "$tmp/said")" "sound: "
is "it answers, with its speed beside what to expect" \
    "$(grep -cx '[0-9]* tokens, [0-9]*\.[0-9] tok/s; expected: no figures are published for small\.' "$tmp/said")" 1
has "it says how to measure it" "$(cat "$tmp/said")" "$q bench report --model $out"
has "model list has it" "$("$q" model list)" "small-hybrid "
hub set '{}'
spark GO=1 SKIP="packages build" sh config/spark.sh
is "again: it ends well and asks the hub for nothing" "$? $(hub get list) $(hub get resolve)" "0 0 0"
has "again: it says that it is there" "$(cat "$tmp/said")" "nothing to download"
printf X | dd of="$out/model_extra_tensors.safetensors" bs=1 seek=0 conv=notrunc 2> /dev/null
spark GO=1 SKIP="packages build" sh config/spark.sh
is "a checkpoint that has rotted: the status" $? 1
has "a checkpoint that has rotted: what to do" "$(cat "$tmp/err")" "make spark stopped at \"verify\": the checkpoint is damaged"
exit $status
