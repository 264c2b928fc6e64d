"""``python docs/generate.py``: writes what is made of the code.

- ``infra/systems/bundled.json``: the bundled broker's properties and its generations, of its
  configuration, with their meanings from ``docs/broker-properties.md``. The harness may not
  import the broker, which is deployed, and knows its properties from here.
- ``docs/checkers.md``: the table in it, of the catalogue of checkers.
- ``docs/verdict.schema.json``, ``docs/matrix.schema.json``: of the names in ``verdict.json`` and in
  ``matrix.json``.
- ``docs/detection.md``: the sentences which say that the catalogue of broken brokers, or the broker
  or the simulator, has changed since the page was measured.
- ``docs/campaign.schema.json`` and ``docs/campaigns.md``: of the campaign file's model.
- ``README.md``: its tables of known losses and of detection, of the findings in
  ``docs/known-losses.json`` and ``docs/kafka-mutants.json``, and of ``docs/detection.md``.

With ``--check`` it writes nothing, names what is stale, and exits with 1 if there is anything.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ackproof.broker.config import (  # noqa: E402
    PRESETS,
    BrokerConfig,
    TopicConfig,
    text,
)
from ackproof.checkers.checks.catalogue import CATALOGUE  # noqa: E402
from ackproof.harness import known_losses  # noqa: E402
from ackproof.harness.campaign.docs import reference_page, schema_text  # noqa: E402
from ackproof.harness.commands.mutants import SYSTEM  # noqa: E402
from ackproof.harness.commands.options import campaign_file  # noqa: E402
from ackproof.harness.mutants import page as mutants  # noqa: E402
from ackproof.harness.mutants.catalogue import catalogue as kafka_mutants  # noqa: E402
from ackproof.harness.mutants.runs import FINDINGS, MutantRuns  # noqa: E402
from ackproof.harness.report import document  # noqa: E402
from ackproof.harness.side_by_side import document as matrix  # noqa: E402
from ackproof.harness.subprocesses import read_findings  # noqa: E402
from tools.mutation import page as detection  # noqa: E402
from tools.mutation.mutants import catalogue  # noqa: E402
from tools.mutation.results import Method  # noqa: E402
from tools.mutation.sources import fingerprint  # noqa: E402

_PROPERTY = re.compile(r"^\| `(?P<name>[^`]+)`[ *]*\| (?P<default>.*?) \| (?P<meaning>.*) \|$")


def bundled() -> str:
    """The bundled broker's properties as JSON."""
    page = (ROOT / "docs/broker-properties.md").read_text(encoding="utf-8")
    meanings = {
        found["name"]: found["meaning"]
        for found in map(_PROPERTY.match, page.splitlines())
        if found
    }
    known = {
        "broker": _properties(BrokerConfig, meanings),
        "topic": _properties(TopicConfig, {}),
        "generations": PRESETS,
    }
    return json.dumps(known, indent=1, ensure_ascii=False) + "\n"


def _properties(
    model: type[BrokerConfig] | type[TopicConfig], meanings: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    made = model.model_json_schema(by_alias=True)["properties"]
    fields = {str(field.alias): field for field in model.model_fields.values()}
    return {
        name: _property(made[name], text(field.get_default()), meanings.get(name))
        for name, field in sorted(fields.items())
    }


def _property(schema: Mapping[str, Any], default: object, meaning: str | None) -> dict[str, Any]:
    """The schema of a value, without what says that it may be missing."""
    one = dict(next((s for s in schema.get("anyOf", ()) if s["type"] != "null"), schema))
    one.pop("title", None)
    one.pop("default", None)
    if (above := one.pop("exclusiveMaximum", None)) is not None:
        one["maximum"] = above - 1
    one |= {"default": default} if isinstance(default, str) else {}
    return one | ({"description": _plain(meaning)} if meaning else {})


def _plain(markdown: str) -> str:
    """Without links, which lead nowhere from a data file."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown)


def checkers_page() -> str:
    """The page with the table as it is now."""
    lines = ["| anomaly | what it is | guarantee |", "| --- | --- | --- |"]
    lines += [
        f"| `{name}` | {one.summary} | {one.breaks or 'none'} |"
        for name, one in CATALOGUE.built_in.items()
    ]
    page = (ROOT / "docs/checkers.md").read_text(encoding="utf-8")
    return _with_table(page, "checkers/checks/catalogue.py", "\n".join(lines) + "\n")


def readme() -> str:
    """The README with the tables of what was found by now."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    page = _with_table(page, "docs/known-losses.json", _known_losses())
    return _with_table(page, "docs/kafka-mutants.json and docs/detection.md", _detection())


def _known_losses() -> str:
    stories = ROOT / "campaigns/known-losses/stories.yaml"
    runs = known_losses.LossRuns(
        stories=known_losses.read(stories),
        campaigns=stories.parent,
        results=ROOT / "nowhere",  # of the findings that are kept alone
        before=read_findings(ROOT / "docs/known-losses.json", known_losses.FINDINGS),
    )
    return known_losses.overview(runs.stories, runs.tally)


def _detection() -> str:
    runs = MutantRuns(
        system=SYSTEM,
        only=None,
        file=lambda name: campaign_file(Path(name)),
        within_ms=None,
        results=ROOT / "nowhere",
        byteman=ROOT / "nowhere",
        before=read_findings(ROOT / "docs/kafka-mutants.json", FINDINGS),
    )
    measured = (ROOT / "docs/detection.md").read_text(encoding="utf-8")
    head = "| broken on purpose | judge | found |\n| --- | --- | --- |\n"
    rows = mutants.overview(SYSTEM, *mutants.collected(runs, kafka_mutants()))
    return head + rows + detection.overview(measured)


def _with_table(page: str, source: str, table: str) -> str:
    """The text of a page with a table between the lines that say what it is made of."""
    begin, end = f"<!-- made of {source} -->\n", "<!-- until here -->\n"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{table}\n{end}{after}"


def detection_page() -> str:
    """Return the page, which says whether it was measured with the present sources."""
    page = (ROOT / "docs/detection.md").read_text(encoding="utf-8")
    return detection.compared(page, catalogue(), fingerprint(Method.SIMULATOR, ROOT))


MADE: Mapping[str, Callable[[], str]] = {
    "README.md": readme,
    "infra/systems/bundled.json": bundled,
    "docs/campaign.schema.json": schema_text,
    "docs/campaigns.md": reference_page,
    "docs/checkers.md": checkers_page,
    "docs/detection.md": detection_page,
    "docs/matrix.schema.json": matrix.as_text,
    "docs/verdict.schema.json": document.as_text,
}


def main() -> int:
    stale = 0
    for name, make in MADE.items():
        path = ROOT / name
        made = make()
        if path.is_file() and path.read_text(encoding="utf-8") == made:
            continue
        if "--check" in sys.argv[1:]:
            print(f"{name} is stale: python docs/generate.py")  # noqa: T201
            stale = 1
        else:
            path.write_text(made, encoding="utf-8")
            print(name)  # noqa: T201
    return stale


if __name__ == "__main__":
    sys.exit(main())
