"""The simulated ZooKeeper compared with a real one through kazoo's client. Each case runs on both.

The brokers' use of it, :class:`KafkaZk` and its callers, is in test_sessions.
"""

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from kazoo.exceptions import BadArgumentsError, NodeExistsError
from kazoo.protocol.states import ZnodeStat

from tests.support.builders.examples import examples
from tests.support.worlds.zookeeper_worlds import RealWorld, SimulatedWorld, until

# --- nodes --------------------------------------------------------------------------------------


def test_missing_parents_of_a_path_are_created(world):
    async def case(world):
        async with world.peer() as zk, world.peer(root="") as unrooted:
            assert await zk.ask("ensure_path", "/a/b/c")
            assert await zk.ask("ensure_path", "/a/b/c")
            assert await zk.ask("get", "/a/b/c") == (b"", await zk.ask("exists", "/a/b/c"))
            assert await zk.ask("create", "/x/y/z", b"1", makepath=True) == "/x/y/z"
            assert sorted(await zk.ask("get_children", "/")) == ["a", "barriers", "x"]
            children, stat = await zk.ask("get_children", "/a", include_data=True)
            assert (children, stat.numChildren) == (["b"], 1)
            assert await unrooted.ask("exists", f"{world.root}/x/y/z")
            assert "zookeeper" in await unrooted.ask("get_children", "/")
            assert type(await unrooted.ask("delete", "/zookeeper")) is BadArgumentsError
            assert type(await unrooted.ask("create", "/")) is NodeExistsError

    world.run(case)


# --- watches ------------------------------------------------------------------------------------


def test_watch_event_precedes_the_read_of_the_change(world):
    """Test the order on the wire. kazoo hands the event to another thread than the answer."""

    async def case(world):
        async with world.peer() as zk, world.peer() as other:
            await zk.ask("create", "/n", b"")
            for value in (b"1", b"2", b"3"):
                await zk.ask("get", "/n", watch=zk.watch(value))
                writing = other.submit(lambda c, value=value: c.set_async("/n", value))
                while (await zk.ask("get", "/n"))[0] != value:
                    pass
                assert not zk.client._data_watchers
                await writing
            assert [name for name, _, _ in await zk.hear()] == [b"1", b"2", b"3"]

    world.run(case)


# --- the same program on both -------------------------------------------------------------------

PATHS = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/deep"])
VERSIONS = st.sampled_from([-1, -1, 0, 1, 2])
DATA = st.binary(max_size=2)
FLAGS = st.fixed_dictionaries({}, optional={"ephemeral": st.booleans(), "sequence": st.booleans()})
OPERATIONS = st.one_of(
    st.tuples(st.just("create"), st.tuples(PATHS, DATA), FLAGS),
    st.tuples(st.just("set_data"), st.tuples(PATHS, DATA, VERSIONS), st.just({})),
    st.tuples(st.just("delete"), st.tuples(PATHS, VERSIONS), st.just({})),
    st.tuples(st.just("check"), st.tuples(PATHS, VERSIONS), st.just({})),
)
READS = st.tuples(
    st.sampled_from(["get", "exists", "get_children"]), st.tuples(PATHS), st.booleans()
)
STEPS = st.tuples(
    st.integers(0, 1), st.one_of(OPERATIONS, READS, st.lists(OPERATIONS, min_size=1, max_size=4))
)


async def played(world, program):
    """Return the answers to a program of two clients, and the events of their watches."""
    answers = []
    async with world.peer() as one, world.peer() as two:
        peers = (one, two)
        for number, (who, step) in enumerate(program):
            answers.append(await _answer(peers[who], number, step))
        heard = [sorted(map(str, await peer.hear())) for peer in peers]
        sessions = {0: None, one.session: "one", two.session: "two"}
        for path in ("/", "/a", "/b", "/a/x"):
            answers += [await two.ask("get", path), await two.ask("get_children", path)]
    return _comparable(answers, sessions), heard


async def _answer(peer, number, step):
    if isinstance(step, list):
        return await peer.commit(*step)
    method, arguments, options = step
    if isinstance(options, bool):
        return await peer.ask(method, *arguments, watch=peer.watch(number) if options else None)
    if method == "check":
        return await peer.commit(step)
    if method == "create":
        options = {**options, "include_data": True}
    return await peer.ask("set" if method == "set_data" else method, *arguments, **options)


def _comparable(answers, sessions):
    """Replace zxids by their rank and sessions by their clients, and drop the time of day."""
    zxids = {zxid for stat in _stats(answers) for zxid in (stat.czxid, stat.mzxid, stat.pzxid)}
    place = {zxid: number for number, zxid in enumerate(sorted(zxids))}

    def plain(answer):
        if isinstance(answer, ZnodeStat):
            return answer._replace(
                czxid=place[answer.czxid],
                mzxid=place[answer.mzxid],
                pzxid=place[answer.pzxid],
                ephemeralOwner=sessions[answer.ephemeralOwner],
                ctime=0,
                mtime=0,
            )
        if isinstance(answer, Exception):
            return type(answer)
        if isinstance(answer, tuple):
            return tuple(map(plain, answer))
        if isinstance(answer, list) and all(isinstance(each, str) for each in answer):
            return sorted(answer)
        return [*map(plain, answer)] if isinstance(answer, list) else answer

    return [plain(answer) for answer in answers]


def _stats(answer):
    if isinstance(answer, ZnodeStat):
        return [answer]
    if isinstance(answer, list | tuple):
        return [stat for each in answer for stat in _stats(each)]
    return []


@pytest.mark.integration
def test_random_program_has_the_same_answers_on_both(real_zookeeper):
    @settings(
        max_examples=examples(20), phases=[Phase.generate]
    )  # shrinking takes minutes, because the time is real
    @given(st.lists(STEPS, min_size=1, max_size=40))
    def compare(program):
        simulated, real = (
            each.run(lambda world: played(world, program))
            for each in (SimulatedWorld(), RealWorld(real_zookeeper))
        )
        assert simulated == real

    compare()


@settings(max_examples=examples(20))
@given(st.lists(STEPS, min_size=1, max_size=40), st.integers(0, 2**32))
def test_lagging_servers_give_one_client_the_same_answers(program, seed):
    """Test that a client sees its own writes on every server."""
    alone = [(0, step) for _, step in program]
    leading, lagging = (
        SimulatedWorld(seed, **options).run(lambda world: played(world, alone))
        for options in ({}, {"servers": 3, "lag_s": 0.5})
    )
    assert leading[0][: len(program)] == lagging[0][: len(program)]


def test_lagging_server_answers_with_old_state_and_never_goes_back():
    async def case(world):
        async with world.peer() as writer, world.peer() as reader:
            await writer.ask("create", "/n", b"0")
            await until(lambda: world.zookeeper.requests["Create"])
            seen, stale = [], 0
            for number in range(1, 100):
                await writer.ask("set", "/n", b"%d" % number)
                answer = await reader.ask("get", "/n")
                if isinstance(answer, tuple):
                    seen.append(int(answer[0]))
                    stale += seen[-1] < number
            assert seen == sorted(seen)
            return stale

    stale = [SimulatedWorld(seed, servers=3, lag_s=0.2).run(case) for seed in range(6)]
    assert max(stale) > 0, "no client was connected to a server that lags"
    assert SimulatedWorld().run(case) == 0
