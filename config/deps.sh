#!/bin/sh
# Prints which Debian packages are missing and installs them, as root or through sudo; otherwise prints the command and stops.
# `deps.sh arm64` adds what `make aarch64` needs: a cross compiler, qemu, and the libraries of that architecture.
# With CUDA=1 in the environment also what nvcc needs; with TESTS=1 also what only some tests need.
# Exits with 0 if all packages are installed, 1 if installing failed, 2 if this script cannot install them and says why.
TOOLS="gcc make pkg-config tmux xz-utils"
LIBRARIES="libc6-dev libjansson-dev libutf8proc-dev libedit-dev libncurses-dev libmd4c-dev libinih-dev libcurl4-openssl-dev \
    libmicrohttpd-dev libssl-dev libxxhash-dev libpng-dev libjpeg-dev libwebp-dev libcmocka-dev libvterm-dev"
# Without these some tests are skipped; the last one is a server.
[ "$TESTS" != 1 ] || TOOLS="$TOOLS python3 openssl poppler-utils nghttp2-proxy"
[ "$CUDA" != 1 ] || TOOLS="$TOOLS g++"          # nvcc's host compiler
[ -z "$1" ] || grep -qsx ID=debian /etc/os-release || {
    echo "Cross-building needs a compiler, qemu-user and libraries for $1, which are known to be installable side by side only on Debian."
    exit 2
}
command -v dpkg-query >/dev/null 2>&1 || exit 0         # not Debian: the compiler will report what is missing
native=$(dpkg --print-architecture)
packages="$TOOLS $LIBRARIES" foreign=
if [ "$1" = "$native" ]; then
    echo "This machine is $1 itself: \`make test\` tests it."
    exit 2
elif [ -n "$1" ]; then
    packages="$packages gcc-aarch64-linux-gnu qemu-user"
    for p in $LIBRARIES; do
        packages="$packages $p:$1"
    done
    dpkg --print-foreign-architectures | grep -qx "$1" || foreign="dpkg --add-architecture $1"
fi
missing=
for p in $packages; do      # a package of another architecture does not count
    case $p in *:*) name=$p ;; *) name=$p:$native ;; esac
    dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
echo "q35chat needs these Debian packages, which are not installed:$missing"
install="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" -eq 0 ]; then
    sudo=
elif command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    sudo=sudo
else
    echo "Please run this as root, then the same make command again:"
    echo "    ${foreign:+$foreign && }apt-get update && $install"
    exit 2
fi
echo "Installing them now${sudo:+ with sudo}."
# If the package lists cannot be updated, the old ones may do.  No command reads stdin, which may be the prompt of `make run`.
[ -z "$foreign" ] || $sudo $foreign < /dev/null
$sudo apt-get update -q < /dev/null > /dev/null
$sudo env DEBIAN_FRONTEND=noninteractive $install < /dev/null > /dev/null && exit 0
echo "Installing failed.  To repeat it by hand, run:"
echo "    ${foreign:+${sudo:+$sudo }$foreign && }${sudo:+$sudo }apt-get update && ${sudo:+$sudo }$install"
exit 1
