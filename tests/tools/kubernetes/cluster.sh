#!/bin/bash
# A real Kubernetes of several nodes on this machine, for tests: without registry, systemd or Docker.
#
#   cluster.sh up [NODES]         start one (3 nodes), and print the line that makes it yours
#   cluster.sh load IMAGE         copy an image of this machine's Docker Engine to all nodes; or that
#                                 of an archive, FILE.tar
#   cluster.sh kubectl ARG...     kubectl of that version, on that cluster
#   cluster.sh down               end it and remove all of it; the built programs stay
#   cluster.sh with COMMAND...    run a command on the cluster that KUBECONFIG names, else on one that
#                                 is started for it and removed after it, with the images IMAGE loaded
#
# A node is a containerd and a kubelet in namespaces of their own (node.sh): when its first process
# dies, all its pods die, as in a power failure. Needs root. Tried on Debian 12 with version 1 of
# control groups. Kubernetes is built once (build.sh), into ~/.cache/ackproof.
set -euo pipefail

VERSION=1.34.4  # the last whose kubelet starts on version 1 of control groups; takes containerd 1.6
here=$(dirname "$(readlink -f "$0")")
sources=$(cat "$here/build.sh" "$here/kube/main.go" "$here/pause.c" | sha256sum | cut -c1-8)
programs=${XDG_CACHE_HOME:-$HOME/.cache}/ackproof/kubernetes-$VERSION-$sources
export KUBE=$programs/kube
export STATE=${ACKPROOF_KUBERNETES_STATE:-/tmp/ackproof-kubernetes}
export NODES_NET=10.66.0 PODS_NET=10.67
SERVICES_NET=10.68.0.0/16
HOST=$NODES_NET.254
BRIDGE=ackkube
PASSING=(-i $BRIDGE -o $BRIDGE -j ACCEPT)
ETCD=http://127.0.0.1:12379
LOCK=/tmp/ackproof-kubernetes.lock

say() { echo "kubernetes: $*" >&2; }
fail() { say "$*"; exit 5; }

kubectl() { "$KUBE" kubectl --kubeconfig "$STATE/kubeconfig" "$@"; }

wait_for() {  # wait_for SECONDS WHAT COMMAND...
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "$what: not there in time; see $STATE/*.log and $STATE/node*/*.log"
        sleep 0.2
    done
}

need() {
    [ "$(id -u)" = 0 ] || fail "making a cluster needs root; or name a cluster by KUBECONFIG"
    local package
    for package in containerd:containerd runc:runc containernetworking-plugins:/usr/lib/cni/bridge \
        etcd-server:etcd nftables:nft iproute2:ip openssl:openssl curl:curl; do
        "$here/../../../infra/need.sh" "${package%%:*}" command -v "${package#*:}" ||
            fail "${package%%:*} is missing"
    done
}

# --- processes: known by id and start, so that no other is ever taken for one of them --------------

background() {  # background NAME COMMAND...
    local name=$1
    shift
    setsid "$@" >"$STATE/$name.log" 2>&1 </dev/null &
    note "$name" $!
}
note() { echo "$2 $(started "$2")" >"$STATE/$1.process"; }
started() { cut -d' ' -f22 "/proc/$1/stat" 2>/dev/null; }
process() {  # process NAME: its id, while it lives
    local id start
    read -r id start 2>/dev/null <"$STATE/$1.process" && [ "$(started "$id")" = "$start" ] &&
        ! grep -q '^State:.Z' "/proc/$id/status" && echo "$id"
}
ended() { ! process "$1"; }
end() {  # end NAME [the process to kill]: and wait until NAME is gone
    local id
    id=$(process "$1") || return 0
    kill -9 "${2:-$id}" 2>/dev/null || true
    wait_for 20 "the end of $1" ended "$1"
}

# --- the control plane ---------------------------------------------------------------------------

control_plane() {
    openssl genrsa -out "$STATE/accounts.key" 2048 2>/dev/null
    local token
    token=$(openssl rand -hex 16)
    (umask 077
    echo "$token,admin,admin,system:masters" >"$STATE/tokens.csv"
    cat >"$STATE/kubeconfig" <<END
apiVersion: v1
kind: Config
clusters:
- name: tests
  cluster: {server: "https://$HOST:6443", certificate-authority: "$STATE/pki/apiserver.crt"}
users:
- name: admin
  user: {token: "$token"}
contexts:
- name: tests
  context: {cluster: tests, user: admin}
current-context: tests
END
    )
    background etcd etcd --name=tests --data-dir="$STATE/etcd" --unsafe-no-fsync --log-level=warn \
        --listen-client-urls=$ETCD --advertise-client-urls=$ETCD \
        --listen-peer-urls=http://127.0.0.1:12380
    wait_for 60 etcd curl -sf $ETCD/health
    background apiserver "$KUBE" apiserver --etcd-servers=$ETCD \
        --bind-address=$HOST --advertise-address=$HOST --cert-dir="$STATE/pki" \
        --service-cluster-ip-range=$SERVICES_NET --token-auth-file="$STATE/tokens.csv" \
        --service-account-issuer=https://kubernetes.default.svc \
        --service-account-key-file="$STATE/accounts.key" \
        --service-account-signing-key-file="$STATE/accounts.key" \
        --authorization-mode=RBAC --allow-privileged --kubelet-preferred-address-types=InternalIP
    wait_for 120 "the API server" kubectl get --raw /readyz
    background controller-manager "$KUBE" controller-manager --kubeconfig="$STATE/kubeconfig" \
        --leader-elect=false --secure-port=0 --node-monitor-grace-period=40s \
        --service-account-private-key-file="$STATE/accounts.key" \
        --root-ca-file="$STATE/pki/apiserver.crt" --flex-volume-plugin-dir="$STATE/volumes"
    background scheduler "$KUBE" scheduler --kubeconfig="$STATE/kubeconfig" \
        --leader-elect=false --secure-port=0
}

# --- nodes ---------------------------------------------------------------------------------------

network() {  # network NODES: pods are reached from here by a route to each node, services by the first
    local node
    ip link add $BRIDGE type bridge
    ip address add $HOST/24 dev $BRIDGE
    ip link set $BRIDGE up
    # Docker lets no packets pass between other networks, and bridges are filtered, too.
    ! command -v iptables >/dev/null || iptables -I FORWARD "${PASSING[@]}"
    for node in $(seq "$1"); do
        ip netns add "$BRIDGE$node"
        ip link add "$BRIDGE$node" type veth peer name eth0 netns "$BRIDGE$node"
        ip link set "$BRIDGE$node" master $BRIDGE up
        ip -n "$BRIDGE$node" link set lo up
        ip -n "$BRIDGE$node" address add "$NODES_NET.$node/24" dev eth0
        ip -n "$BRIDGE$node" link set eth0 up
        ip -n "$BRIDGE$node" route add default via $HOST
        ip netns exec "$BRIDGE$node" sysctl -qw net.ipv4.ip_forward=1
        ip route add "$PODS_NET.$node.0/24" via "$NODES_NET.$node"
    done
    ip route add $SERVICES_NET via $NODES_NET.1
    for node in $(seq "$1"); do
        for other in $(seq "$1"); do
            [ "$node" = "$other" ] ||
                ip -n "$BRIDGE$node" route add "$PODS_NET.$other.0/24" via "$NODES_NET.$other"
        done
    done
}

own_group() {  # own_group CONTROLLER: the group of this process in that hierarchy
    awk -F: -v c="$1" '$2 == c || $2 == "name=" c || c == "unified" && $1 == 0 { print $3; exit }' \
        /proc/self/cgroup
}

groups_of() {  # groups_of NODE: makes its control groups, and prints them
    local controller top file
    for controller in $(ls /sys/fs/cgroup); do
        top=/sys/fs/cgroup/$controller$(own_group "$controller")
        mkdir -p "$top/$BRIDGE/$1"
        for file in cpuset.cpus cpuset.mems; do
            [ -e "$top/$file" ] || continue
            cat "$top/$file" >"$top/$BRIDGE/$file"
            cat "$top/$file" >"$top/$BRIDGE/$1/$file"
        done
        echo "$top/$BRIDGE/$1"
    done
}

node_up() {  # node_up NODE
    mkdir -p "$STATE/node$1"
    groups_of "$1" >"$STATE/node$1/groups"
    (
        while read -r group; do echo $BASHPID >"$group/cgroup.procs"; done <"$STATE/node$1/groups"
        exec setsid nsenter --net="/run/netns/$BRIDGE$1" unshare --mount --propagation private \
            --pid --fork --kill-child --uts --ipc --cgroup --mount-proc \
            "$here/node.sh" "$1" >"$STATE/node$1/node.log" 2>&1 </dev/null
    ) &
    note "node$1" $!
}

node_down() {  # node_down NODE: its first process takes all others along
    local id
    id=$(process "node$1") || return 0
    end "node$1" "$(cat "/proc/$id/task/$id/children")"
}

all_ready() {
    [ "$(kubectl get nodes 2>/dev/null | grep -cw Ready)" = "$1" ] &&
        kubectl get serviceaccount default
}

up() {
    local nodes=${1:-3} node
    need
    exec 9>"$LOCK"
    flock --nonblock 9 || fail "another cluster is being started or is in use ($LOCK)"
    [ ! -e "$STATE" ] || fail "there is one already: $STATE; $0 down removes it"
    "$here/build.sh" $VERSION "$programs" >&2
    mkdir -p "$STATE"
    say "starting a cluster of $nodes nodes"
    network "$nodes"
    pause
    control_plane 9>&-
    for node in $(seq "$nodes"); do node_up "$node" 9>&-; done
    wait_for 180 "$nodes nodes that are ready" all_ready "$nodes"
    say "ready: export KUBECONFIG=$STATE/kubeconfig"
}

down() {
    local directory name group
    for directory in "$STATE"/node*/; do
        [ -d "$directory" ] && node_down "$(basename "$directory" | tr -dc 0-9)"
    done
    for name in scheduler controller-manager apiserver etcd; do end $name; done
    for directory in "$STATE"/node*/; do
        [ -e "$directory/groups" ] || continue
        name=$(basename "$directory" | tr -dc 0-9)
        ip netns delete "$BRIDGE$name" 2>/dev/null || true
        ip link delete "$BRIDGE$name" 2>/dev/null || true
        while read -r group; do
            find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true
            rmdir "${group%/*}" 2>/dev/null || true
        done <"$directory/groups"
    done
    ip link delete $BRIDGE 2>/dev/null || true
    ! command -v iptables >/dev/null || iptables -D FORWARD "${PASSING[@]}" 2>/dev/null || true
    rm -rf "$STATE"
}

# --- images --------------------------------------------------------------------------------------

pause() {  # the image of one program, without which no pod starts
    local image=$STATE/pause
    mkdir -p "$image"
    tar -C "$programs" --owner=0 --group=0 --mtime=@0 -cf "$image/layer.tar" pause
    local layer
    layer=$(sha256sum "$image/layer.tar" | cut -d' ' -f1)
    cat >"$image/config.json" <<END
{"architecture": "$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')", "os": "linux",
 "config": {"Entrypoint": ["/pause"]}, "rootfs": {"type": "layers", "diff_ids": ["sha256:$layer"]}}
END
    echo '[{"Config": "config.json", "RepoTags": ["localhost/pause:1"], "Layers": ["layer.tar"]}]' \
        >"$image/manifest.json"
    tar -C "$image" -cf "$STATE/pause.tar" manifest.json config.json layer.tar
}

load() {
    local directory archive importing=()
    archive=$1
    if [ ! -f "$archive" ]; then
        archive=$STATE/image.tar
        docker save --output "$archive" "$1"
    fi
    for directory in "$STATE"/node*/; do
        ctr --address "$directory/containerd.sock" --namespace k8s.io \
            images import "$archive" >>"$directory/import.log" 2>&1 &
        importing+=($!)
    done
    wait "${importing[@]}" || fail "cannot load $1: see $STATE/node*/import.log"
    rm -f "$STATE/image.tar"
    say "loaded $1"
}

with() {
    if [ -z "${KUBECONFIG:-}" ]; then
        trap down EXIT
        trap 'exit 130' INT
        trap 'exit 143' TERM
        up
        local image
        for image in ${IMAGE:-}; do load "$image"; done
        export KUBECONFIG=$STATE/kubeconfig
    fi
    "$@" 9>&-
}

case ${1:-} in
    up | down | load | with) "$@" ;;
    kubectl) shift; kubectl "$@" ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
