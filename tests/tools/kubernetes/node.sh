#!/bin/bash
# The first process of a node of cluster.sh, in namespaces of its own: node.sh NUMBER
# It starts containerd, the proxy of services and the kubelet. With STATE, KUBE, NODES_NET and PODS_NET of cluster.sh.
set -euo pipefail
number=$1 own=$STATE/node$1

hostname "node$number"

# The kubelet sets four values of the whole machine. It finds copies of them, which it may set.
mount --bind /proc/sys /proc/sys
mount --bind /proc/sys/net /proc/sys/net
mount -o remount,ro,bind /proc/sys

controllers=$(ls /sys/fs/cgroup)
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
for controller in $controllers; do
    mkdir "/sys/fs/cgroup/$controller"
    case $controller in
        systemd) mount -t cgroup -o none,name=systemd cgroup "/sys/fs/cgroup/$controller" ;;
        unified) mount -t cgroup2 cgroup2 "/sys/fs/cgroup/$controller" ;;
        *) mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller" ;;
    esac
done

# Paths that the kubelet and CNI do not let us choose: /var/lib/kubelet, /var/lib/cni, /var/log/pods.
mount -t tmpfs tmpfs /run
mkdir -p /run/var-lib/upper /run/var-lib/work /run/values
mount -t overlay overlay -o lowerdir=/var/lib,upperdir=/run/var-lib/upper,workdir=/run/var-lib/work /var/lib
mount -t tmpfs tmpfs /var/log
for value in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1; do
    copy=/run/values/$(basename "${value%=*}")
    echo "${value#*=}" >"$copy"
    mount --bind "$copy" "/proc/sys/${value%=*}"
done

mkdir -p "$own/cni" "$own/kubelet"
cd "$own"
cat >containerd.toml <<END
version = 2
root = "$own/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
    "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[grpc]
address = "$own/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "$own/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/pause:1"
restrict_oom_score_adj = true
stream_server_address = "127.0.0.1"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "$own/cni"
END
cat >cni/10-pods.conflist <<END
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{
  "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "/run/addresses",
           "ranges": [[{"subnet": "$PODS_NET.$number.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
cat >kubelet.yaml <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $NODES_NET.$number
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix://$own/containerd.sock
makeIPTablesUtilChains: false
enforceNodeAllocatable: []
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%",
  imagefs.available: "0%", imagefs.inodesFree: "0%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
healthzPort: 0
podLogsDir: $own/pods
volumePluginDir: $own/volumes
nodeStatusUpdateFrequency: 4s
END

containerd --config containerd.toml >containerd.log 2>&1 &
until ctr --address containerd.sock version >/dev/null 2>&1; do
    kill -0 $! || exit 1
    sleep 0.1
done
ctr --address containerd.sock --namespace k8s.io images import "$STATE/pause.tar"
# Packets from elsewhere than pods, as of this machine, come back by the same node.
"$KUBE" proxy --proxy-mode=nftables --kubeconfig="$STATE/kubeconfig" --cluster-cidr="$PODS_NET.0.0/16" \
    --hostname-override="node$number" --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 \
    --conntrack-tcp-timeout-close-wait=0 --healthz-bind-address= --metrics-bind-address= >proxy.log 2>&1 &
"$KUBE" kubelet --config=kubelet.yaml --kubeconfig="$STATE/kubeconfig" --root-dir="$own/kubelet" \
    --cert-dir="$own/pki" --hostname-override="node$number" --node-ip="$NODES_NET.$number" \
    >kubelet.log 2>&1 &
wait $!  # for the kubelet. As the first process, bash reaps the orphans of containerd's shims meanwhile
