#!/bin/sh
# Makes sure that a program is there: as root on Debian installs its package, elsewhere says what
# to install.
#     infra/docker/need.sh PROGRAM PACKAGE
set -eu

if command -v "$1" >/dev/null; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "ackproof needs the program $1: install it (Debian: apt-get install $2)" >&2
    exit 3
fi
echo "$1 not found: installing Debian's $2"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2"
