"""The broker's own connections over the simulated network, and how they end."""

import asyncio
from typing import Any

import pytest

from ackproof.broker.server.network.broker_connection import BrokerConnection
from simulation.network import HIGH_BYTES, RESET_AFTER_S
from tests.support.clients.pipeline import Pipeline

pytestmark = pytest.mark.simulation


def calls(world: Any, count: int, timeout_s: float = 30.0) -> list[asyncio.Task[Any]]:
    connection = world.connection()
    return [world.ask(connection, timeout_s) for _ in range(count)]


def finish(world: Any, tasks: list[asyncio.Task[Any]]) -> list[Any]:
    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*tasks, return_exceptions=True)

    return world.loop.run_until_complete(all_of_them())


def said(world: Any, host: str) -> list[Any]:
    return [note[2:] for note in world.trace if note[1] == host]


def outcome(task: asyncio.Task[Any]) -> str:
    """Return the outcome that the caller received."""
    assert task.done()
    error = task.exception()
    return "answered" if error is None else str(error)


# --- processes and hosts ----------------------------------------------------------------------


def test_connection_to_a_dead_server_is_refused(world: Any) -> None:
    world.die(world.server)
    (call,) = calls(world, 1)
    world.loop.run_for(1)
    assert "no process listens" in outcome(call)


def test_killed_server_breaks_its_connections(world: Any) -> None:
    world.serves_after_s = 10.0
    waiting = calls(world, 3)
    world.loop.run_for(1)
    world.die(world.server)
    world.loop.run_for(0.1)
    assert ["lost" in outcome(call) for call in waiting] == [True] * 3


def test_bytes_sent_before_death_still_arrive(world: Any) -> None:
    world.network.set_latency("client-1", "server", 0.5, 0.0)
    connection = world.connection()
    finish(world, [world.ask(connection)])
    world.ask(connection)
    world.loop.run_for(0.1)
    world.die(world.client)
    world.loop.run_for(1)
    assert len(said(world, "server")) == 2


def test_server_without_power_is_silent(world: Any) -> None:
    connection = world.connection()
    finish(world, [world.ask(connection)])
    world.lose_power(world.server)
    call = world.ask(connection, 600.0)
    world.loop.run_for(RESET_AFTER_S - 1)
    assert not call.done()
    world.loop.run_for(2)
    assert "timed out" in outcome(call)


def test_host_after_power_loss_resets_old_connections(world: Any) -> None:
    connection = world.connection()
    finish(world, [world.ask(connection)])
    world.lose_power(world.server)
    world.restart_server()
    call = world.ask(connection)
    world.loop.run_for(2)
    assert "reset" in outcome(call)
    finish(world, [world.ask(connection)])


@pytest.mark.parametrize("returns", [False, True])
def test_request_in_flight_at_a_power_loss_is_missed(world: Any, returns: bool) -> None:
    connection = world.connection()
    finish(world, [world.ask(connection)])
    world.network.set_latency("client-1", "server", 0.5, 0.0)
    call = world.ask(connection, 600.0)
    world.loop.run_for(0.1)
    world.lose_power(world.server)
    world.loop.run_for(10)
    assert not call.done()
    if returns:
        world.restart_server()
    world.loop.run_for(2 if returns else RESET_AFTER_S)
    assert ("reset" if returns else "timed out") in outcome(call)
    assert len(said(world, "server")) == 1


def test_paused_server_answers_after_it_resumes(world: Any) -> None:
    connection = world.connection()
    finish(world, [world.ask(connection)])
    world.loop.pause(world.server)
    late = world.ask(connection)
    newcomer = world.ask(world.connection())
    world.loop.run_for(10)
    assert not late.done()
    assert not newcomer.done()
    world.loop.resume(world.server)
    world.loop.run_for(0.1)
    assert outcome(late) == outcome(newcomer) == "answered"


# --- links ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [("client-1", "server"), ("server", "client-1")])
def test_cut_link_delays_bytes_until_it_is_healed(world: Any, way: tuple[str, str]) -> None:
    connection = world.connection()
    finish(world, [world.ask(connection)])
    world.network.cut(*way)
    waiting = [world.ask(connection, 60.0) for _ in range(5)]
    world.loop.run_for(20)
    assert not any(call.done() for call in waiting)
    assert len(said(world, "server")) == (1 if way[0] == "client-1" else 6)
    world.network.heal(*way)
    world.loop.run_for(2)
    assert [outcome(call) for call in waiting] == ["answered"] * 5
    assert said(world, "server") == [("asked", number) for number in range(1, 7)]


@pytest.mark.parametrize("way", [("client-1", "server"), ("server", "client-1")])
def test_long_cut_resets_the_connection(world: Any, way: tuple[str, str]) -> None:
    connection = world.connection()
    finish(world, [world.ask(connection)])
    world.network.cut(*way)
    call = world.ask(connection, 600.0)
    world.loop.run_for(RESET_AFTER_S + 1)
    assert "timed out" in outcome(call)
    world.network.heal(*way)
    world.loop.run_for(2)
    assert outcome(finish_one(world, connection)) == "answered"


def finish_one(world: Any, connection: Any) -> asyncio.Task[Any]:
    call = world.ask(connection)
    finish(world, [call])
    return call


# --- messages ---------------------------------------------------------------------------------


def test_messages_keep_their_order_and_wait_for_the_link(world: Any) -> None:
    seen: list[int] = []
    for number in range(20):
        world.network.delay("client-1", "server", seen.append, number)
    world.loop.run_for(1)
    world.network.cut("client-1", "server")
    for number in range(20, 40):
        world.network.delay("client-1", "server", seen.append, number)
    world.loop.run_for(10)
    assert seen == [*range(20)]
    world.network.heal("client-1", "server")
    for number in range(40, 60):
        world.network.delay("client-1", "server", seen.append, number)
    world.loop.run_for(2)
    assert seen == [*range(60)]


# --- flow -------------------------------------------------------------------------------------


class Sender(asyncio.Protocol):
    """A protocol that writes until it is asked to pause."""

    def __init__(self) -> None:
        self.written = 0
        self.writable = True
        self.lost: list[Exception | None] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def go_on(self, up_to: int) -> None:
        while self.writable and self.written < up_to:
            self.transport.write(b"x" * 10_000)
            self.written += 10_000

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Reader(asyncio.Protocol):
    """A protocol that counts the bytes that it gets."""

    def __init__(self) -> None:
        self.got = 0
        self.ended = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.got += len(data)

    def eof_received(self) -> None:
        self.ended = True


def joined(world: Any, reader: Any = None) -> tuple[Sender, Any]:
    sender, reader = Sender(), reader or Reader()

    async def listen() -> None:
        listening = world.network.listen("server", 1, 10)
        connection, _ = await world.loop.sock_accept(listening)
        await world.loop.connect_accepted_socket(lambda: reader, connection)

    async def connect() -> None:
        await world.loop.create_connection(lambda: sender, "server", 1)

    world.start(world.server, listen())
    world.start(world.client, connect())
    world.loop.run_for(1)
    return sender, reader


def test_paused_reader_stops_the_writer(world: Any) -> None:
    sender, reader = joined(world)
    reader.transport.pause_reading()
    sender.go_on(10_000_000)
    world.loop.run_for(10)
    assert not sender.writable
    assert reader.got == 0
    assert sender.written <= HIGH_BYTES + 10_000
    reader.transport.resume_reading()
    world.loop.run_for(10)
    assert sender.writable
    assert reader.got == sender.written


def test_close_sends_written_bytes_and_then_the_end(world: Any) -> None:
    sender, reader = joined(world)
    sender.go_on(200_000)
    sender.transport.close()
    world.loop.run_for(1)
    assert reader.got == 200_000
    assert reader.ended
    assert sender.lost == [None]


def test_write_to_a_closed_peer_ends_in_a_reset(world: Any) -> None:
    sender, reader = joined(world)
    world.network.cut("server", "client-1")
    reader.transport.abort()
    world.loop.run_for(1)
    sender.go_on(10_000)
    world.loop.run_for(1)
    world.network.heal("server", "client-1")
    sender.go_on(20_000)
    world.loop.run_for(3)
    assert len(sender.lost) == 1


def test_connection_broken_off_before_acceptance_is_not_counted(world: Any) -> None:
    async def connect() -> None:
        pipeline = await Pipeline.to("server", 9092)
        pipeline.close_with_reset()

    connection = world.connection()
    finish(world, [world.ask(connection)])
    world.loop.pause(world.server)
    world.loop.run_until_complete(world.start(world.client, connect()))
    world.loop.run_for(0.1)
    world.loop.resume(world.server)
    world.loop.run_for(0.1)
    assert len(world.connections) == world.connections._quotas._by_address.total() == 1


def test_host_is_reached_by_its_present_name_only(world: Any) -> None:
    world.network.rename("server", "server-1")
    finish(world, [world.ask(BrokerConnection("server-1", 9092, "tests"))])
    world.network.rename("server", "server-2")
    finish(world, [world.ask(BrokerConnection("server-2", 9092, "tests"))])
    (lost,) = [world.ask(BrokerConnection("server-1", 9092, "tests"))]
    world.loop.run_for(1)
    assert "no host is called 'server-1'" in outcome(lost)
