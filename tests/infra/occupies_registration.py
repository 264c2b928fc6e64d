"""Occupies a broker's registration until it is killed: ZooKeeper's servers, the session timeout in
milliseconds, the broker's id."""

import signal
import sys

from ackproof.infra.systems.zookeeper import ZooKeeperEnsemble

_, zookeeper_connect, session_timeout_ms, broker = sys.argv
ensemble = ZooKeeperEnsemble(
    {address: address for address in zookeeper_connect.split(",")}, int(session_timeout_ms)
)
assert ensemble.occupy(int(broker))
sys.stdout.write("occupied\n")
sys.stdout.flush()
signal.pause()
