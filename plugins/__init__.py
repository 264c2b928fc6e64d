"""Plug-ins: objects that installed packages add to the tables of Ackproof.

A package registers an object under an entry-point group, for example ``ackproof.faults``, by the
name that campaigns use. A :class:`Table` holds the built-in objects and the registered ones, and
looks up both in the same way. A plug-in is imported when its name is looked up or when its table is
listed, and not before. One that cannot be imported breaks no run that does not name it. Source:
*Entry points specification*, packaging.python.org.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

SWITCH = "ACKPROOF_PLUGINS"
"""An environment variable. With the value ``off``, no plug-in is used."""

PREFIX = "ackproof."
"""The prefix of the names of Ackproof's entry-point groups."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Plugin:
    """An installed package that registers objects. ``name`` is that of the distribution."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


ON_TRIAL = Plugin(name="on-trial", version="0")
"""The plug-in of an object that a conformance kit tests (:meth:`Table.on_trial`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A name that a plug-in registers.

    Attributes:
        kind: The kind of the object, for example ``fault``.
        plugin: The package that registers it.
        problem: The reason why the registered object cannot be used, or None.
    """

    kind: str
    name: str
    plugin: Plugin
    problem: str | None = None

    def __str__(self) -> str:
        what = f"the {self.kind} {self.name} of the plug-in {self.plugin}"
        return what if self.problem is None else f"{what} cannot be used: {self.problem}"


class Table(Mapping[str, T]):
    """The objects of one kind by name: the built-in ones, then those of plug-ins.

    Args:
        group: The entry-point group, for example ``ackproof.faults``.
        kind: The name of the kind of objects, for messages.
        built_in: The built-in objects. No plug-in replaces one of them.
        check: Returns a registered object as one of the table's, given the object and its name.
            Raises ValueError with a message that says what is wrong with it.
    """

    def __init__(
        self, group: str, kind: str, built_in: Mapping[str, T], check: Callable[[object, str], T]
    ) -> None:
        self.group = group
        self.kind = kind
        self.built_in = built_in
        self._check = check
        self._loaded: dict[str, T | str] = {}
        """The objects of plug-ins that were looked up, or the reason why one cannot be used."""
        self._tried: dict[str, T] | None = None
        """The object on trial, which replaces everything that plug-ins register, or None."""

    def __getitem__(self, name: str) -> T:
        """Return the object of that name. Raises KeyError for a name that is not registered and for
        an object that cannot be used."""
        if name in self.built_in:
            return self.built_in[name]
        if self._tried is not None:
            return self._tried[name]
        if name not in self._entry_points or self._problem(name) is not None:
            raise KeyError(name)
        return self._loaded[name]  # type: ignore[return-value]  # no problem: an object

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        yield from self._tried or ()
        for name in sorted(self._entry_points.keys() - self.built_in.keys()):
            if self._problem(name) is None:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def plugin(self, name: str) -> Plugin | None:
        """Return the plug-in that provides an object. Return None for a built-in object and for a
        name that is not registered."""
        if self._tried is not None and name in self._tried:
            return ON_TRIAL
        points = self._entry_points.get(name)
        return None if name in self.built_in or points is None else _plugin(points[0])

    def refusal(self, name: str) -> str | None:
        """Return why a registered object cannot be used. Return None if it can be, or is not
        registered."""
        if name in self.built_in or name not in self._entry_points:
            return None
        return next((str(one) for one in self._registered(name) if one.problem), None)

    def look_again(self) -> None:
        """Forget the objects that were found and imported, so that packages installed since then
        are found."""
        vars(self).pop("_registered_points", None)
        self._loaded.clear()

    def absence(self, name: str) -> str:
        """Return a sentence that says why the table has no object of that name."""
        if os.environ.get(SWITCH) == "off":
            return f"plug-ins are left out ({SWITCH}=off)"
        return self.refusal(name) or f"no installed plug-in registers the {self.kind} {name}"

    @property
    def registrations(self) -> Sequence[Registration]:
        """The registrations of plug-ins in this table, usable or not. Reading it imports all of
        them."""
        return [one for name in sorted(self._entry_points) for one in self._registered(name)]

    @contextmanager
    def on_trial(self, found: object, name: str) -> Iterator[T]:
        """Replace everything that plug-ins register by one object while the context lasts. This is
        for conformance kits. Raises ValueError with a message that says what is wrong with the
        object."""
        if name in self.built_in:
            raise ValueError(f"the name {name} is a built-in one's")
        before, self._tried = self._tried, {name: self._check(found, name)}
        try:
            yield self._tried[name]
        finally:
            self._tried = before

    @property
    def _entry_points(self) -> Mapping[str, Sequence[EntryPoint]]:
        return self._registered_points if self._tried is None else {}

    @cached_property
    def _registered_points(self) -> Mapping[str, Sequence[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = defaultdict(list)
        for point in _installed(self.group):
            found[point.name].append(point)
        return found

    def _registered(self, name: str) -> Iterator[Registration]:
        problem = "the name is a built-in one's" if name in self.built_in else self._problem(name)
        for point in self._entry_points[name]:
            yield Registration(kind=self.kind, name=name, plugin=_plugin(point), problem=problem)

    def _problem(self, name: str) -> str | None:
        """Import a registered object once, and return why it cannot be used, or None."""
        points = self._entry_points[name]
        if len(points) > 1:
            those = " and ".join(str(_plugin(point)) for point in points)
            return f"{those} register this name; uninstall all but one"
        if name not in self._loaded:
            self._loaded[name] = self._imported(points[0])
        return found if isinstance(found := self._loaded[name], str) else None

    def _imported(self, point: EntryPoint) -> T | str:
        try:
            return self._check(point.load(), point.name)
        except ValueError as wrong:
            return _one_line(str(wrong))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever its author left in it
            return _one_line(f"{type(error).__name__}: {error}")


def misplaced(groups: Sequence[str]) -> Sequence[str]:
    """Return a sentence for each registration under an Ackproof group that does not exist.

    Args:
        groups: The groups that exist.
    """
    return [
        f"{_plugin(point)} registers {point.name} under {group}, which is not one of "
        f"{', '.join(groups)}"
        for group in sorted(entry_points().groups)
        if group.startswith(PREFIX) and group not in groups
        for point in _installed(group)
    ]


def _installed(group: str) -> Sequence[EntryPoint]:
    return [] if os.environ.get(SWITCH) == "off" else list(entry_points(group=group))


def _plugin(point: EntryPoint) -> Plugin:
    if point.dist is None:
        return Plugin(name="unknown", version="unknown")
    return Plugin(name=point.dist.name, version=point.dist.version)


def _one_line(text: str) -> str:
    return " ".join(text.split())
