"""What the agent can be asked: a line each."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from infra.agent import cgroups, facts, files, links, measuring, probes, processes

Verbs = Mapping[str, Callable[..., Any]]
"""Arguments and results are JSON's."""

VERBS: Verbs = {
    "start": processes.start,
    "state": processes.state,
    "signal": processes.send,
    "end_all": processes.end_all,
    "mkdir": files.mkdir,
    "tree": files.tree,
    "empty": files.empty,
    "can_limit": cgroups.obstacle,
    "limit": processes.limit,
    "lift": cgroups.lift,
    "counted": cgroups.counted,
    "obstacles": links.obstacles,
    "impair": links.impair,
    "mend": links.mend,
    "packets": links.packets,
    "reaches": probes.accepts,
    "tries": measuring.tries,
    "connecting_ms": measuring.connecting_ms,
    "hold": measuring.hold,
    "held": measuring.held,
    "let_go": measuring.let_go,
    "sink": measuring.sink,
    "pour": measuring.pour,
    "poured": measuring.poured,
    "time_ns": time.time_ns,
    "facts": facts.facts,
}
