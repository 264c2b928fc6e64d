#!/bin/sh
# Runs a command with a Docker Engine: the one that is there, else one that is started for it and
# stopped again. As root on Debian, what is missing is installed.
#     infra/backends/docker/with-engine.sh [--or-without] COMMAND [ARGUMENT...]
# --or-without: where none can be had, the command runs all the same.
set -eu

here=$(dirname "$0")
optional=
if [ "${1-}" = --or-without ]; then
    optional=yes
    shift
fi
case ${1-} in
    --help | -h) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit ;;
    "" | -*) echo "expected a command, got '${1-}'; --help says more" >&2; exit 2 ;;
esac
usable() {
    .venv/bin/python -P -m ackproof.infra.backends.docker.engine 2>"$1"
}
none() {
    if [ -n "$optional" ]; then
        exec "$@"
    fi
    exit 5
}

if usable /dev/null; then
    exec "$@"
fi
need() {
    "$here/../../need.sh" "$1" which "$2"
}
{ need docker.io dockerd && need iptables iptables; } || none "$@"

log=$(mktemp /tmp/ackproof-dockerd-XXXXXX)
reason=$(mktemp /tmp/ackproof-dockerd-XXXXXX)
dockerd >"$log" 2>&1 &
engine=$!
stop() {
    kill "$engine" 2>/dev/null || true
    wait "$engine" 2>/dev/null || true
    rm -f "$log" "$reason"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

tries=0
until usable "$reason"; do
    if [ "$tries" -ge 60 ] || ! kill -0 "$engine" 2>/dev/null; then
        cat "$reason" >&2
        echo "dockerd was started and does not serve; its last words:" >&2
        tail -n 5 "$log" >&2
        trap - EXIT
        stop
        none "$@"
    fi
    sleep 0.5
    tries=$((tries + 1))
done
"$@"
