#!/bin/sh
# Tests the packages of `make package`: installs the .deb with dpkg into a separate root (or unpacks it without the rights for that), runs
# the program there, removes it; unpacks the tarball and runs it.
BUILD=${BUILD:-build}
status=0
ok() { printf 'ok %s\n' "$1"; }
bad() { printf 'not ok %s: %s\n' "$1" "$2"; status=1; }
is() { if [ "$2" = "$3" ]; then ok "$1"; else bad "$1" "found '$2', expected '$3'"; fi; }
has() { case $2 in *"$3"*) ok "$1" ;; *) bad "$1" "'$3' is not in '$2'" ;; esac; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
version=$("$BUILD/q35chat" --version)
unset MAKEFLAGS MAKELEVEL Q35CHAT_MODEL

OUT=$tmp/out sh config/package.sh > "$tmp/names" 2> "$tmp/err"
is "the packages are made" "$? $(grep -v 'no dpkg-deb here' "$tmp/err")" "0 "
tarball=$(grep 'tar\.gz$' "$tmp/names") deb=$(grep '\.deb$' "$tmp/names")

runs() {        # NAME PROGRAM: from another directory, in a home of its own, with the demo model that is beside it
    is "$1: the version" "$(cd / && "$2" --version)" "$version"
    is "$1: an answer" "$(cd / && echo 'What is 17 + 25?' | env -i HOME="$tmp/home" LC_ALL=C.UTF-8 PATH=/usr/bin:/bin "$2" --backend cpu \
        --temperature 0 2>&1)" "17 + 25 = 42."
}
holds() {       # NAME DIRECTORY
    missing=
    for f in bin/q35chat share/man/man1/q35chat.1 share/q35chat/q35chat.conf share/q35chat/LICENSE share/q35chat/demo/config.json \
        share/bash-completion/completions/q35chat share/zsh/site-functions/_q35chat share/fish/vendor_completions.d/q35chat.fish \
        share/systemd/user/q35chat.service share/systemd/user/q35chat.socket; do
        [ -s "$2/$f" ] || missing="$missing $f"
    done
    is "$1: nothing is missing of program, manual, demo, completions, config example, licence" "$missing" ""
}
mkdir -p "$tmp/home" "$tmp/tar" "$tmp/root"
tar -C "$tmp/tar" -xzf "$tarball" || bad "the tarball" "cannot be unpacked"
place=$(echo "$tmp/tar"/q35chat-*)
holds "the tarball" "$place"
runs "the tarball" "$place/bin/q35chat"

[ -n "$deb" ] || { echo "skip there is no dpkg-deb here"; exit $status; }
is "the architecture" "$(dpkg-deb -f "$deb" Architecture)" "$(dpkg --print-architecture)"
is "the package's version is the program's" "q35chat $(dpkg-deb -f "$deb" Version)" "$(echo "$version" | head -n 1)"
for library in libc6 libcurl libmicrohttpd libjansson libncursesw libutf8proc; do
    has "it depends on $library" "$(dpkg-deb -f "$deb" Depends)" "$library"
done
root=$tmp/root
if [ "$(id -u)" -eq 0 ]; then
    mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/triggers" "$root/var/log"
    : > "$root/var/lib/dpkg/status"
    # What it depends on is this machine's, which that root knows nothing of.
    dpkg --root="$root" --force-depends -i "$deb" > "$tmp/said" 2>&1 || bad "dpkg installs it" "$(tail -3 "$tmp/said")"
    is "dpkg has it installed" "$(dpkg-query --root="$root" -W -f '${Status}' q35chat 2> /dev/null)" "install ok installed"
    is "dpkg finds its files as they were" "$(dpkg --root="$root" --verify q35chat 2>&1)" ""
else
    dpkg-deb -x "$deb" "$root" || bad "dpkg-deb unpacks it" "status $?"
    mkdir "$root/DEBIAN" && dpkg-deb -e "$deb" "$root/DEBIAN"
    (cd "$root" && md5sum --quiet -c DEBIAN/md5sums) > "$tmp/said" 2>&1
    is "its files are as they were" "$? $(cat "$tmp/said")" "0 "
    echo "skip dpkg installs and removes it: that needs root"
fi
holds "the .deb" "$root/usr"
runs "the .deb" "$root/usr/bin/q35chat"
is "its files belong to root" "$(dpkg-deb -c "$deb" | awk '{print $2}' | sort -u)" root/root
if [ "$(id -u)" -eq 0 ]; then
    dpkg --root="$root" --purge q35chat > "$tmp/said" 2>&1 || bad "dpkg removes it" "$(tail -3 "$tmp/said")"
    is "and nothing is left of it" "$(find "$root" -path "$root/var/lib/dpkg" -prune -o -name '*q35chat*' -print)" ""
fi
exit $status
