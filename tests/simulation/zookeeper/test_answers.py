"""The simulated ZooKeeper compared with a real one through kazoo's client. Each case runs on both.

The brokers' use of it, :class:`KafkaZk` and its callers, is in test_sessions.
"""

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from kazoo.exceptions import (
    BadArgumentsError,
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import ZnodeStat

from tests.support.builders.examples import examples
from tests.support.worlds.zookeeper_worlds import RealWorld, SimulatedWorld, until

# --- nodes --------------------------------------------------------------------------------------


def test_versions_count_the_writes_of_a_node(world):
    async def case(world):
        async with world.peer() as zk:
            assert await zk.ask("create", "/n", b"one") == "/n"
            assert (await zk.ask("set", "/n", b"two", 0)).version == 1
            assert type(await zk.ask("set", "/n", b"three", 0)) is BadVersionError
            assert (await zk.ask("set", "/n", b"four", -1)).version == 2
            data, stat = await zk.ask("get", "/n")
            assert (data, stat.version, stat.dataLength) == (b"four", 2, 4)
            assert type(await zk.ask("delete", "/n", 1)) is BadVersionError
            assert await zk.ask("delete", "/n", 2) is True
            assert await zk.ask("exists", "/n") is None
            path, stat = await zk.ask("create", "/n", b"", include_data=True)
            assert (path, stat.version) == ("/n", 0)

    world.run(case)


def test_invalid_requests_are_refused(world):
    async def case(world):
        async with world.peer() as zk, world.peer(root="") as unrooted:
            await zk.ask("create", "/n")
            await zk.ask("create", "/n/below")
            await zk.ask("create", "/e", ephemeral=True)
            refused = {
                ("create", "/n"): NodeExistsError,
                ("create", "/no/such"): NoNodeError,
                ("create", "/e/below"): NoChildrenForEphemeralsError,
                ("get", "/no"): NoNodeError,
                ("get_children", "/no"): NoNodeError,
                ("set", "/no", b""): NoNodeError,
                ("delete", "/no"): NoNodeError,
                ("delete", "/n"): NotEmptyError,
                ("delete", "/n", 7): BadVersionError,
            }
            for asked, error in refused.items():
                assert type(await zk.ask(*asked)) is error, asked
            assert type(await unrooted.ask("delete", "/zookeeper")) is BadArgumentsError
            assert type(await unrooted.ask("create", "/")) is NodeExistsError

    world.run(case)


def test_zxids_follow_the_order_of_writes(world):
    async def case(world):
        async with world.peer() as zk, world.peer() as other:
            _, a = await zk.ask("create", "/a", include_data=True)
            _, b = await other.ask("create", "/b", include_data=True)
            changed = await zk.ask("set", "/a", b"")
            assert a.czxid == a.mzxid == a.pzxid
            assert a.czxid < b.czxid < changed.mzxid
            assert (changed.czxid, changed.pzxid) == (a.czxid, a.czxid)
            await zk.commit(
                ("create", ("/a/c",), {}), ("set_data", ("/b", b""), {}), ("create", ("/d",), {})
            )
            a, b, c, d = [await zk.ask("exists", path) for path in ("/a", "/b", "/a/c", "/d")]
            assert a.pzxid == b.mzxid == c.czxid == d.czxid > changed.mzxid
            assert a.mzxid == changed.mzxid
            await zk.ask("delete", "/a/c")
            a, before = await zk.ask("exists", "/a"), d.mzxid
            assert a.pzxid > d.mzxid, "a child's end is its parent's change, too"
            assert type(await zk.ask("create", "/d")) is NodeExistsError
            assert (await zk.ask("set", "/d", b"")).mzxid > before + 1, (
                "a refused write has its own"
            )

    world.run(case)


def test_sequence_nodes_count_all_former_children(world):
    async def case(world):
        async with world.peer() as zk:
            await zk.ask("create", "/q")
            assert await zk.ask("create", "/q/n_", sequence=True) == "/q/n_0000000000"
            await zk.ask("create", "/q/other")
            await zk.ask("delete", "/q/n_0000000000")
            assert await zk.ask("create", "/q/m_", sequence=True) == "/q/m_0000000002"
            assert await zk.ask("create", "/q/", sequence=True) == "/q/0000000003"
            stat = await zk.ask("exists", "/q")
            assert (stat.cversion, stat.numChildren) == (5, 3)
            failed = await zk.commit(
                ("create", ("/q/n_",), {"sequence": True}), ("check", ("/q", 9), {})
            )
            assert [type(each) for each in failed] == [RolledBackError, BadVersionError]
            assert await zk.ask("create", "/q/n_", sequence=True) == "/q/n_0000000004"

    world.run(case)


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

    world.run(case)


# --- transactions -------------------------------------------------------------------------------


def test_transaction_sees_its_own_earlier_operations(world):
    async def case(world):
        async with world.peer() as zk:
            await zk.ask("create", "/old", b"")
            made = await zk.commit(
                ("check", ("/old", 0), {}),
                ("create", ("/t", b"1"), {}),
                ("create", ("/t/below",), {"ephemeral": True}),
                ("set_data", ("/t", b"2"), {"version": 0}),
                ("delete", ("/old",), {"version": 0}),
            )
            stat = await zk.ask("exists", "/t")
            assert made == [True, "/t", "/t/below", made[3], True]
            assert (made[3].version, stat.version, stat.numChildren) == (1, 1, 1)
            assert (await zk.ask("exists", "/t/below")).ephemeralOwner == zk.session
            assert await zk.ask("exists", "/old") is None

    world.run(case)


def test_failed_transaction_changes_nothing(world):
    async def case(world):
        async with world.peer() as zk:
            await zk.ask("create", "/a", b"1")
            await zk.ask("create", "/a/b", ephemeral=True)
            before = [await zk.ask("get", path) for path in ("/", "/a", "/a/b")]
            answers = await zk.commit(
                ("set_data", ("/a", b"2"), {}),
                ("create", ("/a/c",), {"ephemeral": True}),
                ("delete", ("/a/b",), {}),
                ("create", ("/a/c",), {}),
                ("create", ("/d",), {}),
                ("check", ("/no", 0), {}),
            )
            assert [type(each) for each in answers] == [
                RolledBackError,
                RolledBackError,
                RolledBackError,
                NodeExistsError,
                RuntimeInconsistency,
                RuntimeInconsistency,
            ]
            assert [await zk.ask("get", path) for path in ("/", "/a", "/a/b")] == before
            assert await zk.ask("get_children", "/a") == ["b"]

    world.run(case)


# --- watches ------------------------------------------------------------------------------------

WATCHED = {
    "data of /n": ("get", "/n"),
    "existence of /n": ("exists", "/n"),
    "children of /n": ("get_children", "/n"),
    "existence of /new": ("exists", "/new"),
    "children of /": ("get_children", "/"),
    "data of /n/c": ("get", "/n/c"),
}
FIRES = {
    ("set", "/n", b"x"): [
        ("data of /n", "CHANGED", "/n"),
        ("existence of /n", "CHANGED", "/n"),
    ],
    ("create", "/new"): [
        ("children of /", "CHILD", "/"),
        ("existence of /new", "CREATED", "/new"),
    ],
    ("create", "/n/d"): [("children of /n", "CHILD", "/n")],
    ("delete", "/n/c"): [
        ("children of /n", "CHILD", "/n"),
        ("data of /n/c", "DELETED", "/n/c"),
    ],
    ("delete", "/n"): [
        ("children of /", "CHILD", "/"),
        ("children of /n", "DELETED", "/n"),
        ("data of /n", "DELETED", "/n"),
        ("existence of /n", "DELETED", "/n"),
    ],
    ("set", "/n/c", b""): [("data of /n/c", "CHANGED", "/n/c")],
    ("set", "/no", b""): [],
    ("create", "/n"): [],
}


@pytest.mark.parametrize("change", FIRES, ids=lambda change: " ".join(map(str, change[:2])))
def test_change_fires_the_watches_of_its_kind(world, change):
    async def case(world):
        async with world.peer() as zk, world.peer() as other:
            await zk.ask("create", "/n")
            if change != ("delete", "/n"):
                await zk.ask("create", "/n/c")
            for name, asked in WATCHED.items():
                await zk.ask(*asked, watch=zk.watch(name))
            await other.ask(*change)
            assert sorted(await zk.hear()) == FIRES[change]

    world.run(case)


def test_watch_fires_once_for_each_watcher(world):
    async def case(world):
        async with world.peer() as zk, world.peer() as other:
            await zk.ask("create", "/n")
            twice = zk.watch("twice")
            for watch in (twice, twice, zk.watch("other")):
                await zk.ask("get", "/n", watch=watch)
            await other.ask("get", "/n", watch=other.watch("mine"))
            for _ in range(3):
                await other.ask("set", "/n", b"")
            changed = ("CHANGED", "/n")
            assert sorted(await zk.hear()) == [("other", *changed), ("twice", *changed)]
            assert await other.hear() == [("mine", *changed)]

    world.run(case)


def test_failed_request_leaves_no_watch(world):
    async def case(world):
        async with world.peer() as zk, world.peer() as other:
            for asked in ("get", "get_children"):
                assert type(await zk.ask(asked, "/n", watch=zk.watch(asked))) is NoNodeError
            await other.ask("create", "/n")
            await other.ask("create", "/n/below")
            assert await zk.hear() == []

    world.run(case)


def test_transaction_fires_watches_for_all_operations_or_none(world):
    async def case(world):
        async with world.peer() as zk, world.peer() as other:
            await zk.ask("create", "/n")
            await zk.ask("exists", "/new", watch=zk.watch("new"))
            await zk.ask("get", "/n", watch=zk.watch("n"))
            operations = [("create", ("/new",), {}), ("set_data", ("/n", b"1"), {})]
            await other.commit(*operations, ("check", ("/n", 7), {}))
            assert await zk.hear() == []
            await other.commit(*operations)
            assert await zk.hear() == [("new", "CREATED", "/new"), ("n", "CHANGED", "/n")]

    world.run(case)


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
