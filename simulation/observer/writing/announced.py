"""**SettingsAreAnnounced**: who changes settings says so in the same transaction.

A broker reads settings again when it is told to, by a note in ``/config/changes``. One that is left
by another request never comes when the session expires in between, or whoever makes the change
gives up: ``min.insync.replicas`` is 2 in ZooKeeper, and running brokers go on with 1. That this
happens within the few ms between two requests is rare; that there are two is plain in the first.
The settings of a topic that is made, or not there, need no note: who hears of it reads them.
"""

from collections.abc import Callable
from typing import Any

from kazoo.protocol.serialization import Create, Create2, SetData, Transaction

from simulation.violation import Violation


def check(request: Any, peek: Callable[[str], tuple[bytes | None, int]]) -> None:
    """Of a write, before it is carried out; raises Violation. ``peek`` tells of a node its data,
    None if there is none, and its version."""
    operations = request.operations if type(request) is Transaction else (request,)
    written = [each.path for each in operations if type(each) in (Create, Create2, SetData)]
    if any(path.startswith("/config/changes/") for path in written):
        return
    for path in written:
        match path.split("/")[1:]:
            case ["config", "topics", topic]:
                home = f"/brokers/topics/{topic}"
                if home in written or peek(home)[0] is None:
                    continue
                what = f"the settings of topic {topic} are written"
            case ["config", "brokers", broker]:
                what = f"the settings of broker {broker} are written"
            case _:
                continue
        raise Violation("SettingsAreAnnounced", f"{what}, and no note that they have changed")
