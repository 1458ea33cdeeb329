#!/bin/sh
# Unpack DocumentDB into a folder of its own: PostgreSQL with MongoDB's data model, from Debian testing.
#
# The packages and all that they need are only unpacked, never installed: this needs no root, and programs of
# the system are not touched. It takes some 15 seconds, downloads 140 MB and leaves 0.5 GB.
# The folder is kept for later runs. To remove it: rm -rf "$(tests/servers/documentdb/setup.sh where)"
# STANCHION_TEST_DOCUMENTDB names another folder.
set -eu

mirror=http://deb.debian.org/debian
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# The servers that root starts run as another user, who may not enter root's home.
where() {
    if [ -n "${STANCHION_TEST_DOCUMENTDB:-}" ]; then
        echo "$STANCHION_TEST_DOCUMENTDB"
    elif [ "$(id -u)" = 0 ]; then
        echo /var/cache/stanchion/documentdb
    else
        echo "${XDG_CACHE_HOME:-$HOME/.cache}/stanchion/documentdb"
    fi
}

# Made by this very script, to the end.
is_complete() {
    cmp -s "$0" "$folder/setup.sh"
}

# apt works on folders of its own: it believes that nothing is installed, and finds everything that is needed.
configure_apt() {
    mkdir -p "$apt/etc/preferences.d" "$apt/state/lists/partial" "$apt/cache/archives/partial"
    echo "deb [signed-by=$keyring] $mirror testing main" >"$apt/etc/sources.list"
    : >"$apt/state/status"
    cat >"$apt/apt.conf" <<END
Dir::Etc "$apt/etc";
Dir::State "$apt/state";
Dir::State::status "$apt/state/status";
Dir::Cache "$apt/cache";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
APT::Install-Recommends "false";
APT::Sandbox::User "";
#clear APT::Update;
#clear DPkg;
END
}

download() {
    apt-get -qq -c="$apt/apt.conf" update
    package=$(apt-cache -c="$apt/apt.conf" pkgnames postgresql- | grep -x 'postgresql-[0-9]*-documentdb' | sort -V | tail -n 1)
    apt-get -qq -c="$apt/apt.conf" --download-only --yes install "$package" >/dev/null
}

unpack() {
    for archive in "$apt"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$archive" | tar -xf - -C "$new" --no-same-owner \
            --exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale'
    done
    # What the package does when it is installed.
    ln -s postgis-3.control "$(echo "$new"/usr/share/postgresql/*/extension)/postgis.control"
}

# The programs need a newer libc than most systems have. $1: program
start_with_own_libc() {
    mv "$1" "$1.bin"
    cat >"$1" <<'END'
#!/bin/sh
bin=${0%/*}
loader=$(echo "$bin"/../../../*/ld-linux-*.so.*)
exec "$loader" --argv0 "$0" --library-path "${loader%/*}:$bin/../lib" "$bin/${0##*/}.bin" "$@"
END
    chmod 755 "$1"
}

folder=$(where)
if [ "${1:-}" = where ]; then
    echo "$folder"
    exit
fi
is_complete && exit

for needed in apt-get dpkg-deb flock "$keyring"; do
    command -v "$needed" >/dev/null || [ -e "$needed" ] || {
        echo "tests on MongoDB are skipped: unpacking DocumentDB needs $needed" >&2
        exit
    }
done

umask 022
mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9
is_complete && exit # made by another run meanwhile

echo "unpacking DocumentDB into $folder (140 MB to download)"
new=$folder.new
apt=$new/apt
rm -rf "$new"
mkdir "$new"
configure_apt
download
unpack
for program in "$new"/usr/lib/postgresql/*/bin/postgres "$new"/usr/lib/postgresql/*/bin/initdb; do
    start_with_own_libc "$program"
done
rm -rf "$apt"
cp "$0" "$new/setup.sh"
rm -rf "$folder"
mv "$new" "$folder"
