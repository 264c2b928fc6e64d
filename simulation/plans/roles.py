"""Whom an action strikes."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """A broker, by its number or by what it is at that moment."""

    role: Literal["broker", "controller", "leader", "follower", "straggler"] = "broker"
    broker: int = 0
    """With ``role="broker"``."""
    topic: str = ""
    partition: int = 0
    """Of which partition leader or follower; the follower is the first one that is in the ISR, the
    straggler the last one."""

    def __str__(self) -> str:
        match self.role:
            case "broker":
                return f"broker {self.broker}"
            case "controller":
                return "the controller"
            case role:
                return f"the {role} of {self.topic}-{self.partition}"
