"""A network plug-in for tests that enforces NetworkPolicies, by rules of nft in each pod's network.

It follows the API of Kubernetes for what tests use: pods and peers by labels, blocks of addresses
with exceptions, and numbers of ports. Policies add up. Answers to an allowed connection pass. Pods
and policies are read twice a second. The pods must be on this machine, as those of
tests/tools/kubernetes are.
"""

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kubernetes import client as kube

_TABLE = "test-policies"
_EVERY_S = 0.5
_TRACKING = f"""\
table inet {_TABLE} {{
    chain input {{ type filter hook input priority 0; policy accept; ct state established accept; }}
}}
"""
"""Rules that let the kernel know which connections are open, before it must drop one."""


class NetworkPlugin:
    """The plug-in, in force for as long as the context lasts.

    Args:
        namespace: The namespace whose policies are enforced.
        keeps_open: Whether connections that are open already are left alone, as some plug-ins do.
    """

    def __init__(self, core: "kube.CoreV1Api", namespace: str, *, keeps_open: bool = False) -> None:
        self._core, self._namespace, self._keeps_open = core, namespace, keeps_open
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._rules: dict[str, str] = {}
        """The rules of each pod that has some, by its address."""

    def __enter__(self) -> "NetworkPlugin":
        self._apply(self._wanted())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._apply({})

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            # The cluster may be asked while a pod comes or goes: then again.
            with suppress(kube.ApiException, subprocess.CalledProcessError, OSError):
                self._apply(self._wanted())

    def _apply(self, wanted: Mapping[str, str]) -> None:
        changed = {ip for ip in {*wanted, *self._rules} if wanted.get(ip) != self._rules.get(ip)}
        networks = _networks() if changed else {}
        for ip in changed:
            rules = wanted.get(ip, "")
            if ip in networks:
                clear = f"table inet {_TABLE} {{}}\ndelete table inet {_TABLE}\n"
                subprocess.run(
                    ["nsenter", f"--net={networks[ip]}", "nft", "-f", "-"],
                    input=clear + rules,
                    text=True,
                    check=True,
                )
                self._rules[ip] = rules
            if not rules:
                self._rules.pop(ip, None)

    def _wanted(self) -> Mapping[str, str]:
        """Return the rules of each isolated pod, by its address."""
        policies = kube.NetworkingV1Api(self._core.api_client).list_namespaced_network_policy(
            self._namespace
        )
        plain = kube.ApiClient().sanitize_for_serialization
        specs = [plain(one)["spec"] for one in policies.items]
        pods = [one for one in self._core.list_pod_for_all_namespaces().items if one.status.pod_ip]
        names = self._core.list_namespace().items
        namespaces = {one.metadata.name: one.metadata.labels for one in names}
        wanted = {}
        for pod in pods:
            if pod.metadata.namespace != self._namespace or pod.spec.host_network:
                continue
            mine = [s for s in specs if _selects(s["podSelector"], pod.metadata.labels)]
            if mine:
                wanted[pod.status.pod_ip] = self._table(mine, pods, namespaces)
            elif self._keeps_open:
                wanted[pod.status.pod_ip] = _TRACKING
        return wanted

    def _table(self, specs: Sequence[Any], pods: Sequence[Any], namespaces: Any) -> str:
        chains = ""
        for kind, hook, key, end in (
            ("Ingress", "input", "from", "saddr"),
            ("Egress", "output", "to", "daddr"),
        ):
            applying = [s for s in specs if kind in s["policyTypes"]]
            if not applying:
                continue
            accepted = [
                line
                for spec in applying
                for rule in spec.get(kind.lower()) or ()
                for line in self._accepted(rule, key, end, pods, namespaces)
            ]
            open_ones = "ct state established accept" if self._keeps_open else ""
            lines = "\n".join(accepted)
            chains += f"""
            chain {hook} {{
                type filter hook {hook} priority 0; policy accept;
                meta l4proto != {{ tcp, udp, sctp }} accept
                iif lo accept
                oif lo accept
                ct direction reply accept
                {open_ones}
                {lines}
                drop
            }}"""
        return f"table inet {_TABLE} {{{chains}\n}}\n"

    def _accepted(
        self, rule: Any, key: str, end: str, pods: Sequence[Any], namespaces: Any
    ) -> Iterator[str]:
        peers = list(self._peers(rule.get(key), end, pods, namespaces))
        ports = [_port(one) for one in rule.get("ports") or ()] or [""]
        yield from (f"{peer} {port} accept" for peer in peers for port in ports)

    def _peers(
        self, peers: Sequence[Any] | None, end: str, pods: Sequence[Any], namespaces: Any
    ) -> Iterator[str]:
        if not peers:
            yield ""
        for peer in peers or ():
            if (block := peer.get("ipBlock")) is not None:
                if ":" in block["cidr"]:
                    continue
                but = ", ".join(block.get("except") or ())
                yield f"ip {end} {block['cidr']}" + (f" ip {end} != {{ {but} }}" if but else "")
                continue
            found = [one.status.pod_ip for one in pods if self._is_peer(peer, one, namespaces)]
            if found:
                yield f"ip {end} {{ {', '.join(sorted(set(found)))} }}"

    def _is_peer(self, peer: Any, pod: Any, namespaces: Any) -> bool:
        there = pod.metadata.namespace
        if "namespaceSelector" in peer:
            if not _selects(peer["namespaceSelector"], namespaces.get(there)):
                return False
        elif there != self._namespace:
            return False
        return _selects(peer.get("podSelector", {}), pod.metadata.labels)


def _port(port: Any) -> str:
    last = f"-{port['endPort']}" if "endPort" in port else ""
    return f"{port.get('protocol', 'TCP').lower()} dport {port['port']}{last}"


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str] | None) -> bool:
    """Return whether a label selector is true of labels. An empty one selects everything."""
    labels = labels or {}
    if not (selector.get("matchLabels") or {}).items() <= labels.items():
        return False
    for one in selector.get("matchExpressions") or ():
        key, values = one["key"], one.get("values") or ()
        held = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not held[one["operator"]]:
            return False
    return True


def _networks() -> Mapping[str, str]:
    """Return the network namespace of a process at each address on this machine."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    for path in Path("/proc").glob("[0-9]*/ns/net"):
        with suppress(OSError, subprocess.CalledProcessError):
            if (namespace := str(path.readlink())) in seen:
                continue
            seen.add(namespace)
            looked = ["nsenter", f"--net={path}", "ip", "-json", "-4", "address"]
            done = subprocess.run(looked, check=True, capture_output=True, text=True)
            for interface in json.loads(done.stdout):
                for address in interface.get("addr_info", ()):
                    found[address["local"]] = str(path)
    return found
