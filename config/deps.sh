#!/bin/sh
# Installs the Debian packages that are missing, saying which; as root or through sudo, else prints the command and stops.
PACKAGES="gcc make pkg-config libc6-dev libjansson-dev libutf8proc-dev libedit-dev libncurses-dev libmd4c-dev libinih-dev libcmocka-dev libvterm-dev tmux xz-utils"
! command -v nvcc >/dev/null 2>&1 && [ ! -x /usr/local/cuda/bin/nvcc ] || PACKAGES="$PACKAGES g++"        # nvcc's host compiler
command -v dpkg-query >/dev/null 2>&1 || {      # not Debian: the compiler will say what it misses
    exit 0
}
missing= native=$(dpkg --print-architecture)      # the same package of another architecture does not count
for p in $PACKAGES; do
    dpkg-query -W -f '${Status}' "$p:$native" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
echo "q35chat needs these Debian packages, which are not installed:$missing"
install="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" -eq 0 ]; then
    sudo=
elif command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    sudo=sudo
else
    echo "Please run this as root, then the same make again:"
    echo "    apt-get update && $install"
    exit 1
fi
echo "Installing them now${sudo:+ with sudo}."
# Lists that cannot be renewed may still do.  Nobody reads stdin, which may be the prompt of `make run`.
$sudo apt-get update -q < /dev/null > /dev/null
$sudo env DEBIAN_FRONTEND=noninteractive $install < /dev/null > /dev/null && exit 0
echo "Installing failed; this is the command to repeat by hand:"
echo "    ${sudo:+$sudo }apt-get update && ${sudo:+$sudo }$install"
exit 1
