"""The runs of the stories: which there are to be, and which there are."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ackproof.harness.campaign import validation
from ackproof.harness.known_losses.stories import Side, Story
from ackproof.harness.known_losses.tally import Tally, tally
from ackproof.harness.once import Once

_DIGEST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Attributes:
    stories: By name.
    campaigns: The directory that their files are in.
    results: The directory below which each run has its own.
    """

    stories: Mapping[str, Story]
    campaigns: Path
    results: Path

    def of(self, name: str, side: Side) -> Path:
        """Where the runs of a story on a side are. Of a campaign that was changed since there are
        none: another one tells of nothing here. Raises OSError."""
        file = self.campaigns / self.stories[name].file(side)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:_DIGEST]
        return self.results / f"{name}-{digest}" / re.sub(r"[^A-Za-z0-9.]+", "-", side.name)

    def planned(self, names: Sequence[str], seeds: int) -> Iterator[tuple[str, Side, Once]]:
        """Each story on each of its sides with the seeds 1 to ``seeds``; first all with the first
        seed, so that there is something to see of all of them soon. Raises OSError."""
        for seed in range(1, seeds + 1):
            for name in names:
                story = self.stories[name]
                for side in story.sides:
                    place = self.of(name, side) / f"seed-{seed}"
                    yield name, side, self._once(story, side, seed, place)

    def check(self, names: Sequence[str]) -> None:
        """Raises CampaignRefused where a side would refuse its campaign, before anything runs."""
        for name in names:
            story = self.stories[name]
            for side in story.sides:
                validation.check(
                    self.campaigns / story.file(side),
                    meant=True,
                    system=side.system,
                    metadata_quorum=side.metadata_quorum,
                )

    def tally(self, name: str, side: Side) -> Tally:
        """What came of all runs that there are. Raises OSError, DamagedResults."""
        story = self.stories[name]
        found = [
            self._once(story, side, int(path.name[5:]), path)
            for path in sorted(self.of(name, side).glob("seed-*"))
            if path.name[5:].isdecimal()
        ]
        return tally(sorted(found, key=lambda one: one.seed), story.shown(side))

    def _once(self, story: Story, side: Side, seed: int, place: Path) -> Once:
        return Once(
            file=self.campaigns / story.file(side),
            system=side.system,
            metadata_quorum=side.metadata_quorum,
            seed=seed,
            directory=place,
        )
