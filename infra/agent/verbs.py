"""What the agent can be asked: a line each."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from infra.agent import cgroups, cuts, facts, files, probes, processes

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
    "can_cut": cuts.obstacle,
    "cut": cuts.cut,
    "heal": cuts.heal,
    "reaches": probes.accepts,
    "time_ns": time.time_ns,
    "facts": facts.facts,
}
