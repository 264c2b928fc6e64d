"""The conditions that a plug-in's system must meet."""

from collections.abc import Iterator

from ackproof.infra.systems.product import Product
from ackproof.plugins.registration import common_problems


def as_product(found: object, name: str) -> Product:
    """Return a registered object as the system called ``name``. Raises ValueError that says what is
    wrong with it."""
    if not isinstance(found, Product):
        raise ValueError("it is not an instance of ackproof.infra.systems.product.Product")
    for problem in _problems(found, name):
        raise ValueError(problem)
    return found


def _problems(found: Product, name: str) -> Iterator[str]:
    yield from common_problems(found, name)
    if not callable(found.build):
        yield "its build must be a function of the version"
    for kind in ("forms", "versions"):
        names = getattr(found, kind)
        if isinstance(names, str) or not all(isinstance(one, str) and one for one in names):
            yield f"its {kind} must be a sequence of texts"
    if not found.forms or any(one.partition(":")[0] != name for one in found.forms):
        yield f"its forms must be {name}, or {name}: with what stands behind the colon, or both"
    if found.versions and not found.takes_version:
        yield f"it has versions, and none of its forms has a colon: add {name}:VERSION"
