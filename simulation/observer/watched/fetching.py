"""What is fetched: what followers ask for, and what their leaders and consumers' answer."""

import contextlib
from collections.abc import Collection
from typing import Any

from ackproof.broker.server.replication.fetch_session_handler import FetchAsk, FetchSessionHandler
from ackproof.broker.server.replication.fetcher import Fetcher
from ackproof.broker.server.requests.fetch import _Reader
from ackproof.broker.types import TopicPartition
from simulation.observer.following import counted, named, sought
from simulation.observer.following.named import Named, Wanted
from simulation.observer.following.sought import Sought
from simulation.observer.observer import Observer
from simulation.observer.watched.wrapping import replace


def sessions(undo: contextlib.ExitStack, observer: Observer) -> None:
    original, respond = FetchSessionHandler.ask, _Reader.response
    known = Named(original)

    def ask(self: FetchSessionHandler, wanted: Wanted) -> FetchAsk:
        said = original(self, wanted)
        with observer.failing():
            known.asked(self, wanted, said)
        return said

    def response(self: _Reader) -> Any:
        answer = respond(self)
        if self._session is not None:
            busy = {name for name, read in self._reads.items() if read.records}
            with observer.failing():
                named.answered(self._session.asked(), busy)
        return answer

    replace(undo, FetchSessionHandler, "ask", ask)
    replace(undo, _Reader, "response", response)


def leaders(undo: contextlib.ExitStack, observer: Observer) -> None:
    original, known = Fetcher._call, Sought()

    async def call(self: Fetcher, request: Any) -> Any:
        due = self._locate(self._leader)
        try:
            answer = await original(self, request)
        finally:
            if due is not None:
                with observer.failing():
                    sought.check(self, due)
        with observer.failing():
            await known.elsewhere(self, original, request)
        return answer

    replace(undo, Fetcher, "_call", call)


def readings(undo: contextlib.ExitStack, observer: Observer) -> None:
    begin, again = _Reader.begin, _Reader.look_again

    def begun(self: _Reader) -> None:
        begin(self)
        with observer.failing():
            counted.begun(self)

    def look_again(self: _Reader, woken: Collection[TopicPartition]) -> bool:
        enough = again(self, woken)
        with observer.failing():
            counted.looked_at(self)
        return enough

    replace(undo, _Reader, "begin", begun)
    replace(undo, _Reader, "look_again", look_again)
