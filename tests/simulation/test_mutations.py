"""A mutation breaks what it says it breaks: one that cannot even be called is found by anybody."""

import inspect
from collections.abc import Callable, Iterator

import pytest

from simulation.mutations.catalogue import MUTATIONS
from simulation.mutations.swap import Swap

pytestmark = pytest.mark.simulation


def calls(right: Callable[..., object]) -> Iterator[inspect.BoundArguments]:
    """All that is given, and only what must be."""
    signature = inspect.signature(right)
    needed = [p for p in signature.parameters.values() if p.default is p.empty]
    for parameters in (signature.parameters.values(), needed):
        given = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        named = {p.name: p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
        yield signature.bind(*given, **named)


@pytest.mark.parametrize(
    "swap",
    [
        pytest.param(swap, id=f"{name}, {swap.name}")
        for name, mutation in MUTATIONS.items()
        for swap in mutation.swaps
        if inspect.isfunction(swap.wrong)
    ],
)
def test_what_is_wrong_can_be_called_as_what_is_right(swap: Swap) -> None:
    for call in calls(swap.current):
        inspect.signature(swap.wrong).bind(*call.args, **call.kwargs)
