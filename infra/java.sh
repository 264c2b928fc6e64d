#!/bin/sh
# Spark and ZooKeeper need Java 17 or newer. Install Debian's headless runtime where we may;
# otherwise say what to install.
set -eu

version() {
    "$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1
}

java=${JAVA_HOME:+$JAVA_HOME/bin/java}
java=${java:-$(command -v java || true)}
if [ -n "$java" ] && [ -x "$java" ] && [ "$(version "$java")" -ge 17 ] 2>/dev/null; then
    exit 0
fi

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "Java 17 or newer not found: installing Debian's default-jre-headless"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends default-jre-headless
    exit 0
fi

cat >&2 <<'EOF'
ackproof needs Java 17 or newer (for Spark and ZooKeeper), and found none.
Install one, for example:
    Debian, Ubuntu:  sudo apt-get install default-jre-headless
    Fedora:          sudo dnf install java-17-openjdk-headless
    macOS:           brew install openjdk@17
or point JAVA_HOME at one.
EOF
exit 3
