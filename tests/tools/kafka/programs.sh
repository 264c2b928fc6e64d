#!/bin/sh
# make test-kafka wants Maven, which fetches Apache Kafka's jars, and kcat. Install Debian's
# packages where we may; otherwise say what is missing: without kcat its tests are skipped.
set -eu

missing=
command -v mvn >/dev/null || missing="$missing maven"
command -v kcat >/dev/null || missing="$missing kcat"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "not found, installing Debian's packages:$missing"
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
else
    echo "not found:$missing; on Debian: sudo apt-get install$missing" >&2
fi
