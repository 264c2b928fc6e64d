"""The catalogue's statements about each backend: a case of the suite of all backends."""

from pathlib import Path

from ackproof.harness.campaign.backends import BACKENDS
from ackproof.infra.api.interface import Backend, Capability


def is_never_offered(backend: Backend, capability: Capability) -> bool:
    """Return whether campaigns that need it are refused on that backend, whatever nodes can do."""
    return capability in BACKENDS[backend.name].never


def it_can_do_what_the_catalogue_says(backend: Backend, _scratch: Path) -> None:
    place = BACKENDS[backend.name]
    backend.node("a")  # nodes are asked, where there are any
    found = backend.capabilities
    assert found.isdisjoint(place.never), "what is refused with a reason could be done"
    lacking = set(Capability) - found
    assert lacking <= {*place.never, *place.where}, "what is offered wherever it is, is not there"


CASES = (it_can_do_what_the_catalogue_says,)
