#!/bin/bash
# Builds the programs of a Kubernetes for tests into a directory, where they are not there yet:
# kube (all of Kubernetes, see kube/main.go) and pause (the first process of a pod).
#     tests/tools/kubernetes/build.sh VERSION DIRECTORY
# Needs Go and a C compiler. It takes a quarter of an hour of one core and 2.5 GB of memory, once.
set -euo pipefail

version=$1 programs=$2
here=$(dirname "$(readlink -f "$0")")
[ -x "$programs/kube" ] && [ -x "$programs/pause" ] && exit 0
for tool in go gcc; do
    command -v $tool >/dev/null || { echo "building Kubernetes takes $tool: install it" >&2; exit 5; }
done

echo "building Kubernetes $version, once: a quarter of an hour of one core"
mkdir -p "$programs"
work=$(mktemp -d "$programs/build-XXXXXX")
trap 'rm -rf "$work"' EXIT
gcc -static -Os -s -o "$work/pause" "$here/pause.c"

cd "$work"
cp "$here/kube/main.go" .
cat >go.mod <<END
module kube

go 1.24.0

godebug default=go1.24

require k8s.io/kubernetes v$version
END
# Kubernetes requires its own parts as v0.0.0, from directories beside it. Elsewhere each of them is
# a module of its own: of 1.34.4 it is v0.34.4.
source=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
sed -n "s|^\t\(k8s.io/[a-z-]*\) => ./staging.*|replace \1 => \1 v0.${version#1.}|p" "$source/go.mod" >>go.mod
cp --no-preserve=mode "$source/go.sum" .
echo "  fetching modules"
go mod tidy 2>"$work/tidy.log" || { tail "$work/tidy.log" >&2; exit 1; }

IFS=. read -r major minor _ <<<"$version"
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=" -X $package.gitVersion=v$version -X $package.gitMajor=$major -X $package.gitMinor=$minor"
done
built() {  # reads the names of packages, as they are compiled
    awk '++n % 200 == 0 { print "  " n " packages compiled"; fflush() }'
}
CGO_ENABLED=0 nice -n 19 go build -v -trimpath -tags grpcnotrace -ldflags "$flags" -o "$work/kube" . 2> >(tee "$work/build.log" | built) ||
    { tail "$work/build.log" >&2; exit 1; }
mv "$work/pause" "$work/kube" "$programs/"
echo "built: $programs"
