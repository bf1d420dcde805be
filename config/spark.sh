#!/bin/sh
# `make spark`: from a clean checkout to the first answer of Qwen3.5-122B-A10B on a DGX Spark, in the steps
#     check packages build get hybrid verify ask
# Each step first asks whether it is done, so that the same command goes on after any failure.  From the environment, or `make spark NAME=value`:
#     MODEL=122b              or 35b; another name needs INT4 and FP8
#     INT4=ORG/NAME FP8=...   repositories of the hub
#     OUT=DIR                 where the hybrid goes; by itself where `q35chat model list` finds it
#     QUESTION=TEXT           what is asked
#     SKIP="check get"        steps to leave out
#     DRY_RUN=1, --dry-run    say what would be done, change nothing
#     GO=1                    go on although the check found a reason to stop
# Ends with 0 after an answer, else with 1 and a sentence.
cd "$(dirname "$0")/.." || exit 1
[ "$1" != --dry-run ] || DRY_RUN=1
BUILD=${BUILD:-build} MODEL=${MODEL:-122b} INT4=${INT4:-} FP8=${FP8:-} SKIP=${SKIP:-} DRY_RUN=${DRY_RUN:-} GO=${GO:-}
OUT=${OUT:-${XDG_DATA_HOME:-$HOME/.local/share}/q35chat/models/$MODEL-hybrid}
QUESTION=${QUESTION:-Tell me in one paragraph how tides come about.}
HUB=${HF_HUB_CACHE:-${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}/hub}
PROC=${PROC:-/proc}
q=$BUILD/q35chat
stops=0

# Per model: GiB of memory to be free (weights, 256k tokens of context, a margin), GB of download, what others reached on a Spark.
case $MODEL in
122b) memory=86 disk=77 expect="36 tok/s without drafts, 51.6 with (vLLM); README.md has the table and its sources" ;;
35b)  memory=40 disk=24 expect="98 to 112 tok/s with drafts, by others" ;;
*)    memory=0 disk=0 expect="no figures are published for $MODEL"
      [ -n "$INT4" ] && [ -n "$FP8" ] || {
          echo "make spark knows the models 122b and 35b; MODEL=$MODEL needs INT4=ORG/NAME and FP8=ORG/NAME, too." >&2
          exit 1
      } ;;
esac
INT4=${INT4:-$MODEL} FP8=${FP8:-$MODEL}

# ---- what a step uses

fail() { printf '\nmake spark stopped at "%s": %s\n' "$step" "$1" >&2; exit 1; }

# The command, or in a dry run its text.
act() {
    if [ -n "$DRY_RUN" ]; then echo "would run: $*"; else "$@"; fi
}

there() { [ -e "$OUT/model.safetensors.index.json" ]; }         # it gets this name when it is complete

ok()      { printf '  %-8s %-11s %s\n' ok "$1" "$2"; }
note()    { printf '  %-8s %-11s %s\n' note "$1" "$2"; }
unknown() { printf '  %-8s %-11s %s\n' unknown "$1" "$2"; }
stop()    { printf '  %-8s %-11s %s\n' STOP "$1" "$2"; stops=$((stops + 1)); }

# One fact of the first GPU; nothing where it cannot be had.
smi() { timeout 20 nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits 2>/dev/null | sed -n '1{/^\[/d;/^[0-9A-Za-z]/p;}'; }
gib() { sed -n "s/^$1: *\([0-9]*\) kB/\1/p" "$PROC/meminfo" 2>/dev/null | awk '{printf "%d", $1 / 1048576}'; }

# ---- check: only reads /proc, /sys and nvidia-smi

check_machine() {
    product=$(cat /sys/class/dmi/id/product_name 2>/dev/null)
    case $product in
    *[Ss]park* | *GB10*) ok machine "$product" ;;
    '') unknown machine "it does not tell what it is; the figures to expect are those of a DGX Spark" ;;
    *) note machine "$product, not a DGX Spark: other figures are to be expected" ;;
    esac
}

check_driver() {
    found=$(sh config/gpu.sh)
    if [ -z "$found" ]; then
        stop GPU "there is no NVIDIA GPU, or no driver for it: on a Spark install DGX OS anew, elsewhere NVIDIA's driver 580 or later"
    elif [ "$found" = unknown ]; then
        stop driver "a GPU is there but nvidia-smi does not answer: restart the machine, or install the driver anew"
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
        unknown CUDA "$nvcc does not tell its version; 13 is needed"
    elif [ "${release%%.*}" -lt 13 ]; then
        stop CUDA "$nvcc has version $release and 13 is needed: install cuda-toolkit-13-0"
    else
        ok CUDA "toolkit $release, $nvcc"
    fi
}

check_memory() {
    total=$(gib MemTotal) free=$(gib MemAvailable) cached=$(gib Cached)
    if [ -z "$free" ] || [ -z "$total" ]; then
        unknown memory "$PROC/meminfo does not tell"
        return
    fi
    if [ "$total" -lt "$memory" ]; then
        stop memory "$total GiB in all, and $MODEL needs $memory GiB: this machine is too small for it"
    elif [ "$free" -lt "$memory" ]; then
        stop memory "$free of $total GiB can be used and $MODEL needs $memory: end what uses the rest, such as other model servers"
    else
        ok memory "$free of $total GiB can be used"
    fi
    unused=$(gib MemFree)
    if [ "$memory" -gt 0 ] && [ "${unused:-0}" -lt "$memory" ] && [ "${cached:-0}" -gt 8 ]; then
        note "page cache" "$cached GiB hold copies of files; they give way, but loading is slower: sync; echo 3 | sudo tee /proc/sys/vm/drop_caches"
    else
        ok "page cache" "${cached:-?} GiB hold copies of files and give way when memory is needed"
    fi
}

# The nearest directory that is there, then the free GB of its file system.
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
        ok disk "the model is there"
    elif [ -z "$free" ]; then
        unknown disk "df does not tell how much is free at $HUB"
    elif [ "$free" -lt "$need" ]; then
        stop disk "$free GB are free at $HUB and $need GB are still to be downloaded: make room, or name another disk with HF_HOME=DIR"
    else
        ok disk "$free GB are free at $HUB, $need GB are to be downloaded"
    fi
    there || [ "$(system "$HUB")" = "$(system "$OUT")" ] ||
        note disk "$OUT is on another file system, so that the model is copied, not linked: OUT=DIR on that of $HUB takes no room"
}

# Bits of clocks_event_reasons: power 0x4 0x8 0x80, heat 0x20 0x40.
check_clocks() {
    now=$(smi clocks.sm) most=$(smi clocks.max.sm) reasons=$(smi clocks_event_reasons.active)
    [ -n "$reasons" ] || reasons=$(smi clocks_throttle_reasons.active)
    if [ -z "$now" ]; then
        unknown clocks "nvidia-smi does not tell them"
    else
        ok clocks "${now} MHz now, at most ${most:-?}; a GPU that rests is slow, what counts is told with the answer below"
    fi
    case $reasons in
    0x[0-9a-fA-F]*)
        if [ $((reasons & 0x8c)) -ne 0 ]; then
            note power "the GPU is held back for want of power: use the supply that came with the machine, pull its plug for a minute"
        elif [ $((reasons & 0x60)) -ne 0 ]; then
            note power "the GPU is held back by heat, at $(smi temperature.gpu) degrees: let air to it, wait until it is cooler"
        else
            ok power "state $(smi pstate), $(smi power.draw) W, $(smi temperature.gpu) degrees, not held back"
        fi ;;
    *) unknown power "nvidia-smi does not tell whether the GPU is held back" ;;
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
        echo "Going on all the same."
        return 0
    fi
    fail "what is marked STOP is in the way of $MODEL; nothing was changed.
\`make run\` chats with the small demo model on any machine; \`make spark GO=1\` goes on all the same."
}

# ---- the other steps

do_packages() {
    act sh config/deps.sh || fail "the packages above are missing; when they are there, give the same command again."
}

do_build() {
    act "${MAKE:-make}" -s -j"$(nproc)" all BUILD="$BUILD" < /dev/null || fail "the program could not be built; the first error above says why."
}

do_get() {
    if there; then
        echo "The model is at $OUT: nothing to download."
    else
        act "$q" model get "$INT4" || fail "the download did not end well; what has arrived stays, the same command goes on from there."
    fi
}

do_hybrid() {
    if there; then
        echo "It was made before."
    else
        act mkdir -p "$(dirname "$OUT")"
        act "$q" model build-hybrid --int4 "$INT4" --fp8 "$FP8" --out "$OUT" ||
            fail "the hybrid could not be made; the same command completes it."
    fi
}

do_verify() {
    act "$q" model verify "$OUT" || fail "the checkpoint is not sound.  Remove $OUT, run \`$q model get --check $INT4\`, then this again."
}

# A field of the answer's JSON.  A quote inside of the answer is escaped, so that a field's name is found only where it is one.
field() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" "$said"; }
say_answer() { sed -n 's/^{"answer":"\(.*\)","reasoning":".*/\1/p' "$said" | sed 's/\\n/\n/g; s/\\"/"/g; s/\\t/ /g; s/\\\\/\\/g'; }

# Asks, and meanwhile looks for the highest clock; the status is that of q35chat.
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
    said=$(mktemp) || fail "no temporary file can be made in ${TMPDIR:-/tmp}."
    trap 'rm -f "$said"' EXIT
    echo "> $QUESTION"
    ask || fail "the model did not answer; the sentence above says why."
    [ "$(field generated)" -gt 0 ] 2>/dev/null || fail "the model's answer has no tokens; please report this."
    say_answer
    echo
    printf '%s tokens, %.1f tok/s; to expect: %s.\n' "$(field generated)" "$(field tok_per_s)" "$expect"
    if [ "${highest:-9999}" -lt 1500 ]; then
        echo "The GPU's clock was at most $highest MHz while it answered, and 2,300 is usual on a Spark: pull the plug of its power supply for a minute."
    elif [ -n "$highest" ]; then
        echo "The GPU's clock was up to $highest MHz while it answered."
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
