"""Systems of plug-ins are named, configured and refused like the built-in ones."""

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ackproof.harness.campaign.validation import CampaignRefused, check
from ackproof.infra import systems
from ackproof.infra.api.interface import InfraError
from ackproof.infra.systems import SYSTEMS
from ackproof.infra.systems.bundled import bundled_properties
from ackproof.infra.systems.product import Build, Layout, MetadataQuorum, Product, as_product
from tests.support.builders.installations import Install

SOURCE = """
from dataclasses import replace
from ackproof.infra.systems.bundled import BUNDLED_BROKER

def build(version):
    made = BUNDLED_BROKER.build(None)
    return replace(made, text=f"own:{version}", defaults={"replica.lag.time.max.ms": "5000"})

OWN = replace(BUNDLED_BROKER, name="own", build=build, forms=("own:VERSION",), versions=("1", "2"))
"""
GROUP = "ackproof.systems"


@dataclass(frozen=True, kw_only=True)
class Bare(Build):
    """A build that says nothing about itself."""

    def configured(self, layout: Layout):
        return SimpleNamespace(layout=layout)


def product(name: str = "own", **changes: object) -> Product:
    bare = Product(name="own", summary="x", build=lambda _: Bare(text="own"), forms=("own",))
    return replace(bare, **{"name": name, **changes})


def test_system_of_a_plugin_is_named_with_its_version(install: Install) -> None:
    install("owner", SOURCE, group=GROUP, own="OWN", version="2.3")
    assert [*SYSTEMS] == ["bundled", "external", "kafka", "own"]
    assert systems.parse("own:2").text == "own:2"
    assert str(systems.plugin("own:2")) == "owner 2.3"
    assert systems.plugin("kafka:4.1.1") is None
    assert systems.quorum_of("own:1") is MetadataQuorum.ZOOKEEPER
    assert systems.pattern() == "^(bundled|external|kafka:.+|own:.+)$"


def test_defaults_of_a_plugin_are_in_force_unless_a_campaign_says_otherwise(
    install: Install,
) -> None:
    install("owner", SOURCE, group=GROUP, own="OWN")
    known = systems.known("own:1")
    assert known is not None
    lag = "replica.lag.time.max.ms"
    assert known.in_force({})[lag] == "5000"
    assert known.in_force({lag: 700})[lag] == 700
    assert known.in_force({"ackproof.generation": "0.8"})[lag] == "5000"
    assert bundled_properties().in_force({})[lag] == "30000"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("own", "which own? own:1, own:2"),
        ("owm:1", "unknown system 'owm:1'; did you mean own:1?"),
        ("bundled:1", "'bundled:1' must not have a version: use bundled"),
        ("external:", "'external:' must not have a version: use external"),
    ],
)
def test_wrong_system_name_is_refused_with_the_right_form(
    install: Install, name: str, says: str
) -> None:
    install("owner", SOURCE, group=GROUP, own="OWN")
    with pytest.raises(ValueError, match=says.replace("?", r"\?")):
        systems.parse(name)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import no_such_module", "cannot be used: ModuleNotFoundError: No module"),
        ("OWN = 5", "it is not an instance of ackproof.infra.systems.product.Product"),
        (SOURCE + "OWN = replace(OWN, summary='')", "its summary must be one line of text"),
        (SOURCE + "OWN = replace(OWN, name='x')", "registered as own, but its name is"),
        (SOURCE + "OWN = replace(OWN, build=None)", "its build must be a function"),
        (SOURCE + "OWN = replace(OWN, forms=())", "its forms must be own, or own:"),
        (SOURCE + "OWN = replace(OWN, forms=('other',))", "its forms must be own, or own:"),
        (SOURCE + "OWN = replace(OWN, forms='own')", "its forms must be a sequence of texts"),
        (SOURCE + "OWN = replace(OWN, forms=('own',))", "none of its forms has a colon"),
        (
            SOURCE + "OWN = replace(OWN, build=lambda _: 5)",
            "its build returns 5, but must return an",
        ),
        (SOURCE + "OWN = replace(OWN, build=lambda _: 1 // 0)", "plug-in owner 1.0: ZeroDivision"),
    ],
)
def test_system_that_cannot_be_used_is_refused_with_its_plugin(
    install: Install, source: str, says: str
) -> None:
    install("owner", source, group=GROUP, own="OWN")
    with pytest.raises(ValueError, match=r"plug-in owner 1\.0") as refused:
        systems.parse("own:1")
    assert says in str(refused.value)
    with pytest.raises(InfraError, match=r"plug-in owner 1\.0"):
        systems.make_system("own:1", SimpleNamespace(), brokers=1, zookeepers=1, properties={})
    assert systems.known("own:1") is None
    assert systems.parse("bundled").text == "bundled"


def test_plugin_does_not_replace_a_built_in_system(install: Install) -> None:
    install("owner", SOURCE, group=GROUP, kafka="OWN")
    assert systems.parse("kafka:4.1.1").is_before((4, 2))
    (registration,) = SYSTEMS.registrations
    assert registration.problem == "the name is a built-in one's"


def test_two_plugins_with_one_system_are_both_named(install: Install) -> None:
    install("owner", SOURCE, group=GROUP, own="OWN")
    install("other", SOURCE, group=GROUP, own="OWN")
    with pytest.raises(ValueError, match=r"(?=.*owner 1\.0)(?=.*other 1\.0).*uninstall all but"):
        systems.parse("own:1")


WITHOUT_KEEPERS = """
from dataclasses import replace
from ackproof.infra.systems.bundled import BUNDLED_BROKER

def build(version):
    return replace(BUNDLED_BROKER.build(None), text="own", quorums=())

OWN = replace(BUNDLED_BROKER, name="own", build=build, forms=("own",))
"""
CAMPAIGN = """
name: own
cluster: {{system: own}}
cells: {{acks: all, min.insync.replicas: 1}}
workload: {{rate: 10}}
faults: [{fault}]
"""


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("{fault: kill, target: zookeeper}", "faults[0].fault: zookeeper: own has no servers that"),
        ("{fault: pause, target: controller}", "faults[0].fault: controller: own has no servers"),
        (
            "{story: zookeeper-hangs, topic: acks-all-minisr-1}",
            "faults[0].story: zookeeper: own has no servers that keep",
        ),
        (
            "{fault: expire-session, target: broker-1}",
            "needs ZooKeeper sessions, and this system has none",
        ),
        ("{fault: kill, target: 'leader(acks-all-minisr-1, 0)'}", None),
        ("{fault: kill, target: broker-1}", None),
    ],
)
def test_target_that_a_system_without_keepers_lacks_is_refused(
    install: Install, tmp_path: Path, fault: str, says: str | None
) -> None:
    install("owner", WITHOUT_KEEPERS, group=GROUP, own="OWN")
    file = tmp_path / "campaign.yaml"
    file.write_text(CAMPAIGN.format(fault=fault), encoding="utf-8")
    if says is None:
        assert check(file).campaign.cluster.largest.keepers == ()
    else:
        with pytest.raises(CampaignRefused) as refused:
            check(file)
        assert says in str(refused.value)


@pytest.mark.parametrize("one", SYSTEMS.built_in.values(), ids=lambda one: one.name)
def test_built_in_system_passes_the_check_of_plugins(one: Product) -> None:
    assert as_product(one, one.name) is one
    assert all(systems.parse(name).text == name for name in one.names)


def test_build_that_says_nothing_is_deployed_on_zookeeper_with_any_properties() -> None:
    build = product().build(None)
    assert build.quorum() is MetadataQuorum.ZOOKEEPER
    assert build.known(build.quorum()) is None
    assert not build.is_before((99, 0))
    assert build.obstacle("local") is build.obstacle("docker") is build.obstacle("ssh") is None
    assert "it is for external" in str(build.obstacle("here"))
    assert build.artifacts() == ()


@pytest.mark.parametrize(
    ("quorums", "asked", "says"),
    [
        ((), "zookeeper", "own has no metadata servers: leave it out"),
        (("zookeeper",), "combined-kraft", "own keeps its metadata in ZooKeeper"),
        (("isolated-kraft",), "combined-kraft", "own supports only isolated-kraft"),
        (("isolated-kraft",), "zookeeper", "own keeps its metadata with KRaft"),
        (("zookeeper",), "kraft", "'kraft' is not one of zookeeper"),
    ],
)
def test_quorum_that_a_build_lacks_is_refused(
    quorums: tuple[str, ...], asked: str, says: str
) -> None:
    build = Bare(text="own", quorums=tuple(map(MetadataQuorum, quorums)))
    with pytest.raises(ValueError, match=says):
        build.quorum(asked)
