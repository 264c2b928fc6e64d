"""The interface of a system whose servers can change from one release to another while it runs."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol


class Stage(StrEnum):
    """The stages of one server on its way from one release to another."""

    BEFORE = "before"
    """It has the older release."""
    AFTER = "after"
    """It has the newer release, and can go back."""
    FINAL = "final"
    """It has the newer release, and is configured to use what only that has. With KRaft this is as
    ``AFTER``, because the cluster is finalized as a whole."""


class UpgradeRefused(Exception):
    """The cluster refused to finalize the upgrade. The message has its reason."""


class Upgrade(Protocol):
    """The two releases of a system, and the stage of each of its servers."""

    @property
    def versions(self) -> Mapping[Stage, str]:
        """Return the version of Apache Kafka in each stage."""

    @property
    def unfinished(self) -> set[str]:
        """Return the servers that were stopped for an exchange and are not back yet. The code that
        stops a server adds it here, and removes it when it is back."""

    def first_stage(self, server: str) -> Stage:
        """Return the stage in which a server is configured when it is made."""

    def stage(self, server: str) -> Stage:
        """Return the stage of a server: the programs with which it runs or is started next."""

    def install(self, server: str, stage: Stage) -> None:
        """Exchange the programs of a server. Raises RuntimeError unless it has stopped."""

    def reported(self, server: str) -> str | None:
        """Return the version that a server has written into its log since its programs were last
        exchanged, or None if it has written none."""

    def was(self, server: str) -> str | None:
        """Return the version that a server reported before its programs were last exchanged."""

    def finalize(self, timeout_s: float) -> None:
        """Let the whole cluster use what only the newer release has, from now on and for good.

        Only with KRaft. Raises UpgradeRefused, and TimeoutError if no broker answers in time.
        """

    def finality(self, broker: str) -> tuple[bool, str]:
        """Return whether a broker itself reports that the upgrade is final, and what it reports."""

    @property
    def finalized(self) -> bool:
        """Return whether the upgrade is final, or may be, for any server. There is then no way
        back."""
