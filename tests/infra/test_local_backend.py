"""Parts of the local backend alone; the common ones are in tests/backends."""

import socket
import subprocess
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.local.backend import LocalBackend
from ackproof.infra.machine.registry import Registry
from tests.support.backends.namespaces import AS_EACH_USER
from tests.support.processes.deadlines import PATIENCE_S

pytestmark = pytest.mark.integration

CASES = "cases_network.py"


@pytest.mark.parametrize(
    "case",
    [
        "backends_follow_each_other",
        "our_environment_stays_ours",
        "ipv6_is_off",
    ],
)
def test_inside(inside, case: str) -> None:
    inside.check(CASES, case)


@AS_EACH_USER
def test_the_host_reaches_the_nodes(inside, wait_for) -> None:
    run = inside.start(CASES, "serves_the_host")
    wait_for((inside.scratch / "address").exists, "the node to listen")
    subnet, address, port = (inside.scratch / "address").read_text().split()
    if inside.root:
        socket.create_connection((address, int(port)), timeout=5).close()
        assert subnet != "None"
    else:
        assert subnet == "None", "no uplink without root: nsenter is the way in"
        connect = f"import socket; socket.create_connection(({address!r}, {port}), timeout=5)"
        way_in = Registry(inside.state).get(inside.mark).nsenter
        subprocess.run([*inside.prefix, *way_in, inside.python, "-c", connect], check=True)
    run.terminate()
    run.wait(PATIENCE_S)


@pytest.mark.parametrize("at_once", [False, True])
def test_two_runs_are_exposed_side_by_side(inside, wait_for, at_once: bool) -> None:
    """``at_once``: the one looks before the other, which has its link, has added its route."""
    if not inside.root:
        pytest.skip("no uplink without root")
    first = inside.start(CASES, "serves_the_host")
    wait_for((inside.scratch / "address").exists, "the first node to listen")
    subnet = (inside.scratch / "address").read_text().split()[0]
    with IPRoute() as netlink:
        (route,) = netlink.get_routes(dst=subnet)
        way = {"dst": subnet, "gateway": route.get("gateway"), "oif": route.get("oif")}
        if at_once:
            netlink.route("del", **way)
        second = inside.sibling().start(CASES, "serves_the_host")
        other = inside.sibling().scratch / "address"
        wait_for(other.exists, "the second node to listen")
        if at_once:
            netlink.route("add", **way, prefsrc=route.get("prefsrc"), flags=["onlink"])
    places = [path.read_text().split() for path in (inside.scratch / "address", other)]
    assert places[0][0] != places[1][0]
    for _, address, port in places:
        socket.create_connection((address, int(port)), timeout=5).close()
    for run in (first, second):
        run.terminate()
        run.wait(PATIENCE_S)


def test_local_backend_outside_of_the_namespaces_refuses(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match="only inside"):
        LocalBackend(tmp_path)
