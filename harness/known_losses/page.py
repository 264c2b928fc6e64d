"""The page of known losses, as Markdown: the content of ``docs/known-losses.md``."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from ackproof.harness.known_losses.runs import LossCounts, LossSystem, ReportedLoss

NOT_RUN = "not run"

_INTRODUCTION = """\
# Known losses

Losses that released versions of Apache Kafka or its clients are known for, and the campaigns in \
`campaigns/known-losses/` that show them; the head of each says how. `make known-losses` runs them \
and writes this page. *k of n*: k of n runs, each with its own seed, showed the loss; in brackets \
the first of these, with the number of affected records. A run without effect or with too little \
evidence is *inconclusive* and not counted. No sighting in n runs is no proof: a loss that shows \
in one run of three is missed with probability (2/3)^n.
"""
_HEADINGS = """\
| loss | source | found in | not found in | anomaly | campaign |
| --- | --- | --- | --- | --- | --- |
"""

Tallies = Callable[[str, LossSystem], LossCounts]


def page(stories: Mapping[str, ReportedLoss], tallies: Tallies) -> str:
    """Return the page.

    Args:
        stories: The losses by name.
        tallies: Returns the counted runs of a loss on a side.
    """
    rows = "".join(_row(name, story, tallies) for name, story in stories.items())
    parts = [_INTRODUCTION, f"{_HEADINGS}{rows}"]
    for name, story in stories.items():
        parts.append("\n".join(_section(name, story)))
    return "\n".join(parts)


def _row(name: str, story: ReportedLoss, tallies: Tallies) -> str:
    cells = [
        f"[{name}](#{name})",
        ", ".join(f"[{ticket}]({address})" for ticket, address in story.sources.items()),
        _sides(story.has, lambda side: tallies(name, side)),
        _sides(story.mended, lambda side: tallies(name, side)),
        ", ".join(f"`{name}`" for name in story.shows),
        ", ".join(f"`{file}`" for file in dict.fromkeys(map(story.file, story.sides))),
    ]
    return f"| {' | '.join(cells)} |\n"


def _sides(sides: Sequence[LossSystem], tallies: Callable[[LossSystem], LossCounts]) -> str:
    return "<br>".join(f"{side.name}: {_counts(tallies(side))}" for side in sides) or "none"


def _counts(found: LossCounts) -> str:
    first = found.first
    return words(found) + (f" (seed {first.seed}: {first.records:,})" if first else "")


def words(found: LossCounts) -> str:
    """Return the counted runs of a side in words: ``**seen in 3 of 5**``, ``not seen in 5``,
    ``not run``."""
    parts = []
    if found.seen:
        parts.append(f"**seen in {found.seen} of {found.runs}**")
    elif found.runs:
        parts.append(f"not seen in {found.runs}")
    if found.inconclusive:
        parts.append(f"{found.inconclusive} inconclusive")
    return ", ".join(parts) or NOT_RUN


def _section(name: str, story: ReportedLoss) -> Iterator[str]:
    yield f"## {name}\n"
    yield f"{story.tells.strip()}\n"
    if story.tried:
        yield f"{story.tried.strip()}\n"
