#!/bin/bash
# Helm, for tests of the chart: the one that is installed, else one that is built once, into
# ~/.cache/ackproof, by Go:
#     tests/tools/kubernetes/helm.sh ARG...
set -euo pipefail

VERSION=4.3.1
programs=${XDG_CACHE_HOME:-$HOME/.cache}/ackproof/helm-$VERSION
command -v helm >/dev/null && exec helm "$@"
if [ ! -x "$programs/helm" ]; then
    command -v go >/dev/null || { echo "no helm, and building one takes go: install one of them" >&2; exit 5; }
    echo "building Helm $VERSION, once: some minutes of one core" >&2
    mkdir -p "$programs"
    work=$(mktemp -d "$programs/build-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    CGO_ENABLED=0 GOBIN=$work nice -n 19 go install -trimpath -ldflags "-s -w" \
        "helm.sh/helm/v4/cmd/helm@v$VERSION" >&2
    mv "$work/helm" "$programs/"
    rmdir "$work"
    trap - EXIT
fi
exec "$programs/helm" "$@"
