#!/bin/sh
# `make spark`: from a clean checkout to the first answer of Qwen3.5-122B-A10B on a DGX Spark, in the steps
#     check packages build get hybrid verify ask
# Each step first checks whether it is done, so after any failure the same command continues.  Settings from the environment, or
# `make spark NAME=value`:
#     MODEL=122b              or 35b; another name needs INT4 and FP8
#     INT4=ORG/NAME FP8=...   repositories of the hub
#     QUALITY=1               attention and out projections in FP8: some 10 % slower on prose, nearer to the original (docs/models.md)
#     OUT=DIR                 directory of the hybrid; by default where `q35chat model list` finds it
#     QUESTION=TEXT           the question to ask at the end
#     SKIP="check get"        steps to skip
#     DRY_RUN=1, --dry-run    print what would be done, change nothing
#     GO=1                    continue although the check found a reason to stop
# Exits with 0 after an answer, else with 1 and one sentence.
cd "$(dirname "$0")/.." || exit 1
[ "$1" != --dry-run ] || DRY_RUN=1
BUILD=${BUILD:-build} MODEL=${MODEL:-122b} INT4=${INT4:-} FP8=${FP8:-} SKIP=${SKIP:-} DRY_RUN=${DRY_RUN:-} GO=${GO:-} QUALITY=${QUALITY:-}
OUT=${OUT:-${XDG_DATA_HOME:-$HOME/.local/share}/q35chat/models/$MODEL-hybrid${QUALITY:+-quality}}
QUESTION=${QUESTION:-Tell me in one paragraph how tides come about.}
HUB=${HF_HUB_CACHE:-${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}/hub}
PROC=${PROC:-/proc}
q=$BUILD/q35chat
stops=0

# Per model: GiB of memory that must be free (weights, 256k tokens of context, a margin), GB to download, published speed on a Spark.
case $MODEL in
122b) memory=86 disk=77 expect="36 tok/s without drafts, 51.6 with (vLLM); README.md has the table and its sources" ;;
35b)  memory=40 disk=24 expect="98 to 112 tok/s with drafts, measured by others" ;;
*)    memory=0 disk=0 expect="no figures are published for $MODEL"
      [ -n "$INT4" ] && [ -n "$FP8" ] || {
          echo "make spark knows the models 122b and 35b; MODEL=$MODEL also needs INT4=ORG/NAME and FP8=ORG/NAME." >&2
          exit 1
      } ;;
esac
INT4=${INT4:-$MODEL} FP8=${FP8:-$MODEL}

# ---- helpers of the steps

fail() { printf '\nmake spark stopped at "%s": %s\n' "$step" "$1" >&2; exit 1; }

# Runs the command; in a dry run prints it.
act() {
    if [ -n "$DRY_RUN" ]; then echo "would run: $*"; else "$@"; fi
}

there() { [ -e "$OUT/model.safetensors.index.json" ]; }         # the directory gets this name when it is complete

ok()      { printf '  %-8s %-11s %s\n' ok "$1" "$2"; }
note()    { printf '  %-8s %-11s %s\n' note "$1" "$2"; }
unknown() { printf '  %-8s %-11s %s\n' unknown "$1" "$2"; }
stop()    { printf '  %-8s %-11s %s\n' STOP "$1" "$2"; stops=$((stops + 1)); }

# One property of the first GPU; empty if it is not available.
smi() { timeout 20 nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits 2>/dev/null | sed -n '1{/^\[/d;/^[0-9A-Za-z]/p;}'; }
gib() { sed -n "s/^$1: *\([0-9]*\) kB/\1/p" "$PROC/meminfo" 2>/dev/null | awk '{printf "%d", $1 / 1048576}'; }

# ---- check: only reads /proc, /sys and nvidia-smi

check_machine() {
    product=$(cat /sys/class/dmi/id/product_name 2>/dev/null)
    case $product in
    *[Ss]park* | *GB10*) ok machine "$product" ;;
    '') unknown machine "the model of this machine is unknown; the expected figures are those of a DGX Spark" ;;
    *) note machine "$product, not a DGX Spark: expect other figures" ;;
    esac
}

check_driver() {
    found=$(sh config/gpu.sh)
    if [ -z "$found" ]; then
        stop GPU "there is no NVIDIA GPU, or no driver for it: on a Spark reinstall DGX OS, on other machines install NVIDIA's driver 580 or later"
    elif [ "$found" = unknown ]; then
        stop driver "there is a GPU but nvidia-smi does not answer: restart the machine, or reinstall the driver"
    else
        ok driver "$(smi name), compute capability $found, driver $(smi driver_version)"
    fi
}

check_toolkit() {
    nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
    release=$([ -z "$nvcc" ] || "$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
    if [ -z "$nvcc" ]; then
        stop CUDA "there is no nvcc: install the CUDA toolkit 13 (from NVIDIA's package repository: apt install cuda-toolkit-13-0)"
    elif [ -z "$release" ]; then
        unknown CUDA "the version of $nvcc is unknown; 13 is needed"
    elif [ "${release%%.*}" -lt 13 ]; then
        stop CUDA "$nvcc has version $release, but 13 is needed: install cuda-toolkit-13-0"
    else
        ok CUDA "toolkit $release, $nvcc"
    fi
}

check_memory() {
    total=$(gib MemTotal) free=$(gib MemAvailable) cached=$(gib Cached)
    if [ -z "$free" ] || [ -z "$total" ]; then
        unknown memory "$PROC/meminfo cannot be read"
        return
    fi
    if [ "$total" -lt "$memory" ]; then
        stop memory "the machine has $total GiB and $MODEL needs $memory GiB of memory: it is too small for this model"
    elif [ "$free" -lt "$memory" ]; then
        need="$memory GiB (weights, 256k tokens of context, a margin)"
        stop memory "$free of $total GiB are available and $MODEL needs $need: end other programs that use memory, such as model servers"
    else
        ok memory "$free of $total GiB are available"
    fi
    unused=$(gib MemFree)
    if [ "$memory" -gt 0 ] && [ "${unused:-0}" -lt "$memory" ] && [ "${cached:-0}" -gt 8 ]; then
        drop="sync; echo 3 | sudo tee /proc/sys/vm/drop_caches"
        note "page cache" "$cached GiB are file cache; it is freed when needed, but loading is slower.  To free it: $drop"
    else
        ok "page cache" "${cached:-?} GiB are file cache, which is freed when memory is needed"
    fi
}

# The free GB of the file system of the nearest existing directory.
room() {
    at=$1
    while [ ! -d "$at" ]; do at=$(dirname "$at"); done
    df -Pk "$at" 2>/dev/null | awk 'NR == 2 {printf "%d", $4 * 1024 / 1e9}'
}
system() {
    at=$1
    while [ ! -d "$at" ]; do at=$(dirname "$at"); done
    df -P "$at" 2>/dev/null | awk 'NR == 2 {print $1 " " $6}'
}

check_disk() {
    here=$(du -sk "$HUB"/models--Intel--Qwen3.5-*"$(echo "$MODEL" | tr b B)"-* 2>/dev/null | awk '{n += $1} END {printf "%d", n * 1024 / 1e9}')
    free=$(room "$HUB") need=$((disk - here))
    [ $need -gt 0 ] || need=0
    if there; then
        ok disk "the model exists"
    elif [ -z "$free" ]; then
        unknown disk "df does not show the free space at $HUB"
    elif [ "$free" -lt "$need" ]; then
        stop disk "$free GB are free at $HUB, but $need GB must be downloaded: free some space, or choose another disk with HF_HOME=DIR"
    else
        ok disk "$free GB are free at $HUB, $need GB are to be downloaded"
    fi
    there || [ "$(system "$HUB")" = "$(system "$OUT")" ] ||
        note disk "$OUT is on another file system, so the model is copied, not linked: OUT=DIR on the file system of $HUB needs no space"
}

# Bits of clocks_event_reasons: power 0x4 0x8 0x80, heat 0x20 0x40.
check_clocks() {
    now=$(smi clocks.sm) most=$(smi clocks.max.sm) reasons=$(smi clocks_event_reasons.active)
    [ -n "$reasons" ] || reasons=$(smi clocks_throttle_reasons.active)
    if [ -z "$now" ]; then
        unknown clocks "nvidia-smi does not show them"
    else
        ok clocks "${now} MHz now, at most ${most:-?}; an idle GPU is slow; the clock during the answer is shown below"
    fi
    case $reasons in
    0x[0-9a-fA-F]*)
        if [ $((reasons & 0x8c)) -ne 0 ]; then
            note power "too little power slows the GPU: use the supply that came with the machine, unplug it for a minute"
        elif [ $((reasons & 0x60)) -ne 0 ]; then
            note power "heat slows the GPU, $(smi temperature.gpu) degrees: give it air, wait until it is cooler"
        else
            ok power "state $(smi pstate), $(smi power.draw) W, $(smi temperature.gpu) degrees, not throttled"
        fi ;;
    *) unknown power "nvidia-smi does not show whether the GPU is throttled" ;;
    esac
}

do_check() {
    check_machine
    check_driver
    check_toolkit
    check_memory
    check_disk
    check_clocks
    [ $stops -gt 0 ] || return 0
    if [ -n "$GO$DRY_RUN" ]; then
        echo "Continuing anyway."
        return 0
    fi
    fail "the points marked STOP prevent running $MODEL; nothing was changed.
\`make run\` chats with the small demo model on any machine; \`make spark GO=1\` continues anyway."
}

# ---- the other steps

do_packages() {
    act sh config/deps.sh || fail "the packages above are missing; install them, then run the same command again."
}

do_build() {
    act "${MAKE:-make}" -s -j"$(nproc)" all BUILD="$BUILD" < /dev/null || fail "the program could not be built; the first error above says why."
}

do_get() {
    if there; then
        echo "The model is at $OUT: nothing to download."
    else
        act "$q" model get "$INT4" || fail "the download failed; what was downloaded stays.  Run the same command to continue."
    fi
}

do_hybrid() {
    if there; then
        echo "It was built before."
    else
        act mkdir -p "$(dirname "$OUT")"
        act "$q" model build-hybrid --int4 "$INT4" --fp8 "$FP8" --out "$OUT" ${QUALITY:+--quality} ||
            fail "the hybrid could not be built; run the same command to complete it."
    fi
}

do_verify() {
    act "$q" model verify "$OUT" || fail "the checkpoint is damaged.  Remove $OUT, run \`$q model get --check $INT4\`, then this command again."
}

# A field of the answer's JSON.  Quotes inside the answer are escaped, so a field name is found only as a field.
field() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" "$said"; }
say_answer() { sed -n 's/^{"answer":"\(.*\)","reasoning":".*/\1/p' "$said" | sed 's/\\n/\n/g; s/\\"/"/g; s/\\t/ /g; s/\\\\/\\/g'; }

# Asks the question and records the highest clock meanwhile; returns the status of q35chat.
ask() {
    "$q" --model "$OUT" --json --no-think --max-tokens 256 "$QUESTION" < /dev/null > "$said" &
    pid=$! highest=
    while kill -0 $pid 2>/dev/null; do
        clock=$(smi clocks.sm)
        [ -z "$clock" ] || [ "${highest:-0}" -ge "$clock" ] || highest=$clock
        sleep 0.5
    done
    wait $pid
}

do_ask() {
    if [ -n "$DRY_RUN" ]; then
        act "$q" --model "$OUT" "$QUESTION"
        return
    fi
    said=$(mktemp) || fail "cannot create a temporary file in ${TMPDIR:-/tmp}."
    trap 'rm -f "$said"' EXIT
    echo "> $QUESTION"
    ask || fail "the model did not answer; the sentence above says why."
    [ "$(field generated)" -gt 0 ] 2>/dev/null || fail "the model's answer has no tokens; please report this."
    say_answer
    echo
    printf '%s tokens, %.1f tok/s; expected: %s.\n' "$(field generated)" "$(field tok_per_s)" "$expect"
    if [ "${highest:-9999}" -lt 1500 ]; then
        echo "The GPU's clock was at most $highest MHz during the answer; 2,300 is usual on a Spark: unplug the power supply for a minute."
    elif [ -n "$highest" ]; then
        echo "The GPU's clock was up to $highest MHz during the answer."
    fi
    echo "To chat: $q --model $OUT"
    echo "To measure it in a few minutes, as a text that can be sent to others: $q bench report --model $OUT"
}

for step in check packages build get hybrid verify ask; do
    case " $SKIP " in
    *" $step "*) echo "== $step: skipped" ;;
    *) echo "== $step"; "do_$step" ;;
    esac
done
