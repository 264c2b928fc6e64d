"""The broker's own connections over the simulated network, and what becomes of them."""

import asyncio
from typing import Any

import pytest

pytestmark = pytest.mark.simulation


def calls(world: Any, count: int, timeout_s: float = 30.0) -> list[asyncio.Task[Any]]:
    connection = world.connection()
    return [world.ask(connection, timeout_s) for _ in range(count)]


def finish(world: Any, tasks: list[asyncio.Task[Any]]) -> list[Any]:
    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*tasks, return_exceptions=True)

    return world.loop.run_until_complete(all_of_them())


def history(make_world: Any, seed: int) -> list[Any]:
    world = make_world(seed)
    world.serve()
    world.serves_after_s = 0.01
    finish(world, calls(world, 20) + calls(world, 20))
    world.loop.close()
    return [*world.trace, world.loop.steps, world.loop.time()]


def test_one_seed_one_history(make_world: Any) -> None:
    assert history(make_world, 7) == history(make_world, 7)
    assert history(make_world, 7) != history(make_world, 8)


def test_calls_are_answered_in_their_order(world: Any) -> None:
    answers = finish(world, calls(world, 100))
    assert all(answer.error_code.value == 0 for answer in answers)
    assert [note[3] for note in world.trace if note[1] == "server"] == [*range(1, 101)]
