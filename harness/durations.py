"""Durations in words."""

import math


def lasted(took_s: float) -> str:
    """Return a duration in words, such as ``3 min 5 s``."""
    minutes, seconds = divmod(round(took_s), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def roughly(estimate_s: float) -> str:
    """Return an estimated duration in words, rounded down: ``70 s``, or ``2 min`` from 120 s on."""
    return (
        f"{math.floor(estimate_s)} s" if estimate_s < 120 else f"{math.floor(estimate_s / 60)} min"
    )


def will_last(estimate_s: float) -> str:
    """Return an estimated duration in words, rounded up: ``3 min``, or ``2 h`` from 120 min on."""
    minutes = math.ceil(estimate_s / 60)
    return f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} h"
