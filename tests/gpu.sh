#!/bin/sh
# On a machine with a GPU, from a tree built by `make gpubuild` (no compiler, no make needed): every operation against its
# CPU definition, whole answers at every number of drafts and after a resume, then the golden checkpoints.  The last line has the counts.
# SANITIZE=memcheck (racecheck, synccheck, initcheck): the golden checkpoints alone, under compute-sanitizer ($SANITIZER).
BUILD=${BUILD:-build}
SANITIZE=${SANITIZE:-}
SANITIZER=${SANITIZER:-compute-sanitizer}
export BUILD SANITIZE SANITIZER

stop() { echo "not ok $1"; echo "0 passed, 1 failed"; exit 1; }

[ -x "$BUILD/q35chat" ] && [ -x "$BUILD/tests/golden/compare" ] ||
    stop "$BUILD has no q35chat and tests/golden/compare: make gpubuild CUDA=1 BUILD=$BUILD"
sh tests/checkpoints.sh || stop "the test checkpoints could not be written"
# Skipped tests must not count as passed: is there a GPU that the program can use?
why=$("$BUILD/q35chat" debug draft --backend cuda --kv bf16 --model tests/data/model/g0/bf16 2>&1 < /dev/null) ||
    stop "the program cannot use the GPU: $why"
[ -z "$SANITIZE" ] || command -v "$SANITIZER" > /dev/null || stop "there is no $SANITIZER on the PATH; SANITIZER=FILE names it"

nvidia-smi --query-gpu=name,driver_version,clocks.max.sm --format=csv,noheader 2> /dev/null | head -n 1
# Under a sanitizer the checkpoints run in parallel, since most of the time is spent on the CPU.  Under racecheck they run one after the
# other: it uses tens of GiB of host memory per process.
if [ -n "$SANITIZE" ]; then
    all=$(mktemp) || exit 1
    trap 'rm -f "$all"' EXIT
    for m in g0/bf16 g0/int4 g0/hybrid g1/int4 g1/hybrid; do
        { CHECKPOINTS=$m BACKEND=cuda sh tests/golden/debug.sh 2>&1 || echo "not ok $m as a whole"; } | tee -a "$all" &
        [ "$SANITIZE" != racecheck ] || wait
    done
    wait
    passed=$(grep -c '^ok' "$all") failed=$(grep -c '^not ok' "$all")
    echo "$passed passed, $failed failed"
    [ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
    exit
fi
set --
for t in "$BUILD"/tests/kernels/test_cuda_* "$BUILD"/tests/golden/test_depths "$BUILD"/tests/golden/test_generate \
    "$BUILD"/tests/golden/test_pictures "$BUILD"/tests/golden/test_resume "$BUILD"/tests/golden/test_together; do
    case ${t##*/} in
    *.* | *\*) ;;               # objects and dependencies; no match
    *) set -- "$@" "$t" ;;
    esac
done
BACKEND=cuda FIGURES=1 SCRIPTS=tests/golden/debug.sh exec sh tests/run.sh "$@"
