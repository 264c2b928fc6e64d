#!/bin/sh
# Checks that there is Java 17 or newer, which Spark and ZooKeeper need; else says what to install.
version() {
    "$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1
}

java=${JAVA_HOME:+$JAVA_HOME/bin/java}
java=${java:-$(command -v java || true)}
if [ -n "$java" ] && [ -x "$java" ] && [ "$(version "$java")" -ge 17 ] 2>/dev/null; then
    exit 0
fi
cat >&2 <<'END'
ackproof needs Java 17 or newer (for Spark and ZooKeeper), and found none.
Install one, for example:
    Debian, Ubuntu:  sudo apt-get install default-jre-headless
    Fedora:          sudo dnf install java-17-openjdk-headless
    macOS:           brew install openjdk@17
or point JAVA_HOME at one.
END
exit 5
