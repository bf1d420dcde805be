#!/bin/sh
# `make package`: a .deb (if dpkg-deb exists) and a tarball of the program in BUILD, with demo model, manual, completions, config example
# and licence.  They are written to OUT (BUILD/packages), their names to stdout.  The program looks for the demo model beside itself, so
# the tarball may be unpacked anywhere.
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
OUT=${OUT:-$BUILD/packages}
q=$BUILD/q35chat
fail() { echo "make package: $1" >&2; exit 1; }
[ -x "$q" ] || fail "there is no $q; \`make package\` builds it"
version=$("$q" --version | sed -n '1s/^q35chat \([0-9][0-9.]*\).*/\1/p')
[ -n "$version" ] || fail "$q --version does not print a version"
commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}    # dpkg-deb uses it as the time of files
export SOURCE_DATE_EPOCH
mkdir -p "$OUT" && OUT=$(cd "$OUT" && pwd) || fail "cannot create $OUT"
stage=$(mktemp -d) || exit 1
trap 'rm -rf "$stage"' EXIT
umask 022
chmod 755 "$stage"
"${MAKE:-make}" copies BUILD="$BUILD" DESTDIR="$stage" PREFIX=/usr > /dev/null || fail "the files could not be copied to $stage"
strip "$stage/usr/bin/q35chat" 2>/dev/null

# The packages of the shared libraries: with required versions if dpkg-dev is installed, otherwise only names.
depends() {
    if command -v dpkg-shlibdeps > /dev/null; then
        mkdir -p "$stage/work/debian"
        echo 'Source: q35chat' > "$stage/work/debian/control"
        (cd "$stage/work" && dpkg-shlibdeps -O "$stage/usr/bin/q35chat" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
        rm -rf "$stage/work"
    else
        libc=$(dpkg-query -W -f '${Version}' "libc6:$architecture" | sed 's/-.*//')
        readelf -d "$stage/usr/bin/q35chat" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | while read -r library; do
            file=$(ldd "$stage/usr/bin/q35chat" | awk -v library="$library" '$1 == library {print $3}')
            dpkg-query -S "$(readlink -f "$file")" 2>/dev/null || dpkg-query -S "$file" 2>/dev/null
        done | sed 's/: .*//; s/:[a-z0-9]*$//' | sort -u | sed "s/^libc6\$/& (>= $libc)/" | paste -s -d , - | sed 's/,/, /g'
    fi
}

make_deb() {
    architecture=$(dpkg --print-architecture)
    needs=$(depends)
    [ -n "$needs" ] || fail "cannot find the packages of the program's libraries"
    deb=$OUT/q35chat_${version}_$architecture.deb
    mkdir -p "$stage/DEBIAN" "$stage/usr/share/doc/q35chat"
    cp LICENSE "$stage/usr/share/doc/q35chat/copyright"
    (cd "$stage" && find usr -type f | sort | xargs md5sum) > "$stage/DEBIAN/md5sums"
    cat > "$stage/DEBIAN/control" <<END
Package: q35chat
Version: $version
Architecture: $architecture
Maintainer: q35chat maintainers
Installed-Size: $(du -sk "$stage/usr" | cut -f 1)
Depends: $needs
Section: utils
Priority: optional
Description: chat in the terminal with a language model in the same process
 An interactive terminal chat with an engine for models of the Qwen3.5 MoE
 family, on NVIDIA GPUs and on the CPU.  Includes a small demo model.
 Built from commit $commit.
END
    dpkg-deb -Zgzip --root-owner-group --build "$stage" "$deb" > /dev/null || fail "dpkg-deb could not make $deb"
    rm -rf "$stage/DEBIAN" "$stage/usr/share/doc"
    echo "$deb"
}

make_tarball() {
    name=q35chat-$version-$(uname -s | tr A-Z a-z)-$(uname -m)
    mv "$stage/usr" "$stage/$name"
    cp LICENSE README.md "$stage/$name/"
    tar -C "$stage" -czf "$OUT/$name.tar.gz" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" "$name" ||
        fail "tar could not make $OUT/$name.tar.gz"
    echo "$OUT/$name.tar.gz"
}

if command -v dpkg-deb > /dev/null; then make_deb; else echo "There is no dpkg-deb on this machine, so no .deb is built." >&2; fi
make_tarball
