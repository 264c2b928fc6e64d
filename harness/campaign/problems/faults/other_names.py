"""The words of other tools for what faults do, and the faults that are meant by them."""

from collections.abc import Mapping, Sequence

from ackproof.config.suggestions import unknown
from ackproof.nemesis import FAULTS

_CUTS = ("isolate", "halves", "cut")
_CLOCKS = ("step-clock", "fast-clock", "strobe-clock")
_MEANT: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("partition", "network-partition", "netsplit", "split", "split-brain"), _CUTS),
    **dict.fromkeys(("crash", "crash-broker", "sigkill"), ("kill",)),
    **dict.fromkeys(("stop", "shutdown", "sigterm"), ("terminate", "pause")),
    **dict.fromkeys(("freeze", "hang", "suspend", "sigstop"), ("pause",)),
    **dict.fromkeys(("delay", "latency", "slow-network"), ("slow",)),
    **dict.fromkeys(("loss", "drop", "packet-loss"), ("lossy",)),
    **dict.fromkeys(("bandwidth", "throttle"), ("narrow",)),
    **dict.fromkeys(("clock", "clock-skew", "skew"), _CLOCKS),
    **dict.fromkeys(("power-loss", "power-off", "power-cut"), ("power-failure",)),
    **dict.fromkeys(("corrupt", "corruption"), ("bit-flip", "corrupt-index")),
    **dict.fromkeys(("cpu", "memory", "stress"), ("starve-cpu", "starve-memory")),
}
"""Of Jepsen's nemeses, of Chaos Mesh's kinds and actions, of signals and of everyday speech."""


def unknown_fault(name: str) -> str:
    """Return that there is no fault of this name, and which may be meant."""
    faults = _MEANT.get(name.lower().replace("_", "-"), ())
    if not faults:
        return unknown("fault", name, FAULTS)
    meant = "; or ".join(f"{fault}: {FAULTS[fault].summary}" for fault in faults)
    return f"unknown fault {name!r}; what is meant may be {meant}"
