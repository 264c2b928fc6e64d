#!/bin/sh
# Makes sure that something is there: where TEST fails, installs Debian's package as root on Debian,
# elsewhere says what to install (TEST's own words on standard error, if it has any).
#     infra/need.sh PACKAGE TEST [ARGUMENT...]
set -eu
package=$1
shift
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin  # a user's own may lack them

if why=$("$@" 2>&1 >/dev/null); then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "${why:-ackproof needs $package: install it (Debian: apt-get install $package)}" >&2
    exit 5
fi
echo "installing Debian's $package"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package"
