"""Stands in for a broker where processes are what is tested: registers, listens, stops gently."""

import signal
import socket
import sys
from pathlib import Path

from jproperties import Properties
from kazoo.client import KazooClient

properties = Properties()
properties.load(Path(sys.argv[1]).read_bytes(), "utf-8")
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # in kazoo's threads too
host, port = properties["listeners"].data.removeprefix("PLAINTEXT://").split(":")
listener = socket.create_server((host, int(port)))
client = KazooClient(properties["zookeeper.connect"].data)
client.start()
path = f"/brokers/ids/{properties['broker.id'].data}"
client.create(path, b"{}", ephemeral=True, makepath=True)
signal.sigwait([signal.SIGTERM])
client.stop()
