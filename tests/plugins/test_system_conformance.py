"""The conformance kit finds what a system does wrong. (Sound ones: the example's own tests.)"""

import os
from pathlib import Path

import pytest

from ackproof.testing.systems import check_system
from ackproof.testing.trials import NotConforming
from tests.support.builders.installations import Install

OF_BUNDLED = """
from dataclasses import replace
from ackproof.infra.systems.bundled import BUNDLED_BROKER, bundled_properties, knock
from ackproof.infra.systems.on_zookeeper import BuildOnZooKeeper, Program
from ackproof.infra.systems.product import Build
BUNDLED = BUNDLED_BROKER.build(None)

class Nowhere(type(BUNDLED)):
    def obstacle(self, backend):
        return "it is for mainframes"

class Unfetched(type(BUNDLED)):
    def prepare(self, tell):
        from ackproof.infra.api.interface import InfraError
        raise InfraError("no such download")

def made(build):
    return replace(BUNDLED_BROKER, name="own", build=build, forms=("own",))
"""


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("OWN = made(lambda _: replace(BUNDLED, text='owm'))", "own: unknown system 'owm'"),
        ("from itertools import count\nnumbers = count()\n"
         "OWN = made(lambda _: replace(BUNDLED, text=f'own:{next(numbers)}'))", "own: it is own:0"),
        ("OWN = made(lambda _: BUNDLED)\nOWN = replace(OWN, forms=())", "its forms must be own"),
        ("OWN = made(lambda _: replace(BUNDLED, text='own',"
         " defaults={'replica.lag.time.max.ms': 'soon'}))",
         "own: its default replica.lag.time.max.ms: a whole number"),
        ("OWN = made(lambda _: Nowhere(text='own', program=BUNDLED.program))",
         "on the local backend: it is for mainframes"),
        ("OWN = made(lambda _: Unfetched(text='own', program=BUNDLED.program))",
         "own: it cannot be prepared: no such download"),
    ],
)  # fmt: skip
def test_build_that_breaks_its_contract_does_not_conform(
    install: Install, source: str, says: str
) -> None:
    install("owner", OF_BUNDLED + source, group="ackproof.systems", own="OWN")
    with pytest.raises(NotConforming) as refused:
        check_system("own")
    assert says in str(refused.value)


@pytest.mark.integration
def test_broker_that_ends_at_once_does_not_conform(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "OWN = made(lambda _: BuildOnZooKeeper(text='own', program=Program("
    source += "command=lambda node, config: ['sh', '-c', 'echo no license; exit 4'], knock=knock)))"
    install("owner", OF_BUNDLED + source, group="ackproof.systems", own="OWN")
    paths = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", paths)
    with pytest.raises(NotConforming) as refused:
        check_system("own")
    assert "it does not deploy: broker-1 ended with status 4 before it is in" in str(refused.value)
    assert "no license" in str(refused.value)
