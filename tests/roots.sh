#!/bin/sh
# Runs the commands of the README as a new user would (`make spark` with a small model from the test hub), in a minimal system of each named
# release (bookworm trixie sid noble), installed from the distribution's mirror, with git, make and a clean clone of the last commit.
#     tests/roots.sh [RELEASE...]
# TOOLKIT=/usr/local/cuda adds that CUDA toolkit; there is no GPU in the root.  CC=clang builds with clang.  ONLY=run skips `make test`;
# ONLY=spark runs only `make spark`.  KEEP=1 keeps the roots below ROOTS (/tmp/q35chat-roots) for the next run.  Needs root, mmdebstrap and a
# network; takes some minutes per release.  A check prints "ok NAME" or "not ok NAME"; times are printed with the machine's load and never fail.
cd "$(dirname "$0")/.." || exit 1
ROOTS=${ROOTS:-/tmp/q35chat-roots} TOOLKIT=${TOOLKIT:-} ONLY=${ONLY:-} KEEP=${KEEP:-}
mkdir -p "$ROOTS" || exit 1
faults=0

stop() { echo "$*" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || stop "tests/roots.sh must be root: it makes roots with packages and enters them."
for tool in mmdebstrap unshare git; do
    command -v $tool > /dev/null || stop "tests/roots.sh needs $tool, which is not installed."
done

check() {       # STATUS NAME, more words
    [ "$1" -eq 0 ] && echo "ok $2" || { echo "not ok $2"; faults=$((faults + 1)); }
}

# The packages of a minimal system, with apt's lists.  Expired lists of a mirror are accepted.
make_root() {   # RELEASE DIR
    case $1 in
    bookworm | trixie | forky | sid)
        set -- "$1" "$2" main "${MIRROR:-http://deb.debian.org/debian}" debian ;;
    *)
        set -- "$1" "$2" main,universe "${MIRROR:-http://archive.ubuntu.com/ubuntu}" ubuntu ;;
    esac
    keys=/usr/share/keyrings/$5-archive-keyring.gpg
    [ -e "$keys" ] || stop "There is no $keys; the package $5-archive-keyring has it (Debian 13 has Ubuntu's too)."
    mmdebstrap --quiet --variant=minbase --include=apt,git,make,ca-certificates --components="$3" --keyring="$keys" \
        --aptopt='Acquire::Check-Valid-Until "false"' "$1" "$2" "$4"
}

# Runs a shell command in the root, in the clone.  Its mounts are in a namespace of their own and end with it.
inside() {      # DIR COMMAND
    unshare --mount --propagation private sh -c '
        mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" || exit 1
        [ -z "$3" ] || mount --bind "$3" "$1/usr/local/cuda" || exit 1
        exec chroot "$1" env -i HOME=/root TERM=xterm-256color PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -c "cd /q35chat && $2"' sh "$1" "$2" "$TOOLKIT"
}

ask() { echo "What is 17 + 25?" | inside "$root" "make run $told"; }

# The root has no python3: the hub runs outside it.
spark() (
    bare=$root
    . tests/hub/common.inc
    pair
    inside "$bare" "HF_ENDPOINT=$HF_ENDPOINT make spark GO=1 MODEL=small INT4=demo/int4 FP8=demo/fp8 QUESTION=hello $told"
)

try_spark() {
    timed spark > "$ROOTS/$1.spark" 2>&1 < /dev/null
    check $? "$name: make spark ends well, $took"
    grep '^make spark stopped\|^q35chat: ' "$ROOTS/$1.spark"
    grep -q '^[0-9]* tokens, [0-9.]* tok/s; expected' "$ROOTS/$1.spark"
    check $? "$name: $(grep '^[0-9]* tokens, ' "$ROOTS/$1.spark")"
}

# CPU seconds of all children of this shell; must be called in this shell, not in a pipe or $( ).
count_cpu() {
    times > "$ROOTS/times"
    cpu=$(sed -n '2s/[ms]/ /gp' "$ROOTS/times" | awk '{print int($1 * 60 + $2 + $3 * 60 + $4)}')
}

# Sets $took to the time of a command, in words.
timed() {
    count_cpu
    before=$cpu began=$(date +%s)
    "$@"
    status=$?
    count_cpu
    took="$(($(date +%s) - began)) s ($((cpu - before)) s of CPU)"
    return $status
}

try() {         # RELEASE
    root=$ROOTS/$1 log=$ROOTS/$1.log told=${CC:+CC=$CC}
    name="$1${TOOLKIT:+ with a toolkit}${CC:+ $CC}"
    [ -x "$root/usr/bin/git" ] || make_root "$1" "$root" > "$log" 2>&1 || { tail -n 5 "$log"; check 1 "$name: a bare root"; return; }
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    [ -z "$TOOLKIT" ] || mkdir -p "$root/usr/local/cuda"
    rm -rf "$root/q35chat"
    git clone -q --no-hardlinks . "$root/q35chat" || stop "The clone could not be made."
    if [ "$ONLY" = spark ]; then
        inside "$root" "apt-get update -q -o Acquire::Check-Valid-Until=false" > "$log" 2>&1 < /dev/null
        try_spark "$1"
        return
    fi
    timed inside "$root" "apt-get update -q -o Acquire::Check-Valid-Until=false > /dev/null; make deps" > "$log" 2>&1 < /dev/null
    check $? "$name: packages, $took"
    [ -z "$CC" ] || inside "$root" "apt-get install -y --no-install-recommends $CC" >> "$log" 2>&1 < /dev/null
    timed ask > "$ROOTS/$1.answer" 2> "$ROOTS/$1.said"
    answer=$(cat "$ROOTS/$1.answer")
    cat "$ROOTS/$1.said" >> "$log"
    [ "$answer" = "17 + 25 = 42." ]
    check $? "$name: make run builds and answers \"$answer\", $took, load $(cut -d ' ' -f 1 /proc/loadavg) on $(nproc) cores"
    grep -q "^no NVIDIA GPU found: CPU only" "$ROOTS/$1.said" && ! find "$root/q35chat/build" -name '*.cu.o' | grep -q .
    check $? "$name: no device code is built"
    ! grep -q 'warning:' "$ROOTS/$1.said"
    check $? "$name: the program compiles without warnings"
    [ "$ONLY" != run ] || return
    try_spark "$1"
    timed inside "$root" "make test $told" > "$ROOTS/$1.test" 2>&1 < /dev/null
    check $? "$name: make test: $(tail -n 1 "$ROOTS/$1.test"), $took, load $(cut -d ' ' -f 1 /proc/loadavg)"
    grep '^FAIL\|^not ok\|^    ' "$ROOTS/$1.test"
    ! grep -q 'warning:' "$ROOTS/$1.test"
    check $? "$name: the tests compile without warnings"
}

for release in "${@:-bookworm trixie sid noble}"; do
    for r in $release; do
        try "$r"
        [ -n "$KEEP" ] || rm -rf --one-file-system "${ROOTS:?}/$r"
    done
done
[ "$faults" -eq 0 ]
