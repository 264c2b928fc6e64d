"""The example of a plug-in: installed as a user installs it, named everywhere, and proven."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ackproof.plugins import SWITCH
from tests.support.builders.installations import write_plugin

PROJECT = Path(__file__).parents[2]
EXAMPLE = PROJECT / "examples" / "plugin"
ACKPROOF = ("-P", "-m", "ackproof.harness")
PLUGIN = "ackproof-example 0.1.0"
BROKEN = "the fault sleepy of the plug-in broken 1.0 cannot be used: ModuleNotFoundError: No module"
MANIFEST = """
import sys
from pathlib import Path
from ackproof.harness.campaign.plan.runs import manifest_of, runs_of
from ackproof.harness.campaign.validation import check
campaign = check(Path(sys.argv[1])).campaign.resolved(seed=1)
print(manifest_of(campaign, runs_of(campaign)).model_dump_json())
"""

MISDATED = """
import sys
from pathlib import Path
from ackproof.testing.histories import sound_history
history = sound_history()
history.rows("log", partition=1)[3]["timestamp"] = 0
history.write(Path(sys.argv[1]))
"""

Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> Call:
    """Call Python in a copy of the example, where it is installed and so is a broken plug-in."""
    directory = tmp_path_factory.mktemp("plugin")
    sources, site = directory / "sources", directory / "site"
    # pip leaves files beside the sources.
    shutil.copytree(EXAMPLE, sources, ignore=shutil.ignore_patterns("__pycache__"))
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    pip = (sys.executable, "-m", "pip", "install", *options, "--target", site, sources)
    installed = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    write_plugin(site, "broken", "import no_such_module", sleepy="SLEEPY")
    paths = os.pathsep.join(map(str, (site, PROJECT)))

    def called(*arguments: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=sources,
            env={**os.environ, "PYTHONPATH": paths, SWITCH: "on", "COLUMNS": "160"},
            capture_output=True,
            text=True,
            check=False,
        )

    return called


def test_faults_lists_the_fault_of_a_plugin_with_its_parameters(call: Call) -> None:
    shown = call(*ACKPROOF, "faults", "abort")
    assert shown.returncode == 0, shown.stderr
    assert PLUGIN in shown.stdout
    assert "signal: abort" in shown.stdout
    everything = call(*ACKPROOF, "faults")
    assert everything.returncode == 0
    assert PLUGIN in everything.stdout
    assert everything.stderr.startswith(BROKEN)
    assert everything.stderr.count("\n") == 1


def test_schema_includes_the_registrations_of_a_plugin(call: Call) -> None:
    sections = json.loads(call(*ACKPROOF, "schema").stdout)["$defs"]
    system = sections["ClusterSweep"]["properties"]["system"]
    pattern = system["anyOf"][0]["pattern"]
    assert pattern == "^(bundled|external|kafka:.+|brisk|brisk:.+)$"
    client = sections["Cells"]["properties"]["client"]
    assert "confluent" in client["anyOf"][0]["anyOf"][0]["enum"]
    entry = sections["FaultEntry"]
    assert "abort" in entry["properties"]["fault"]["enum"]
    assert "sleepy" not in entry["properties"]["fault"]["enum"]
    cases = {one["if"]["properties"]["fault"]["const"]: one["then"] for one in entry["allOf"]}
    properties = cases["abort"]["properties"]["parameters"]["properties"]
    assert properties["signal"]["enum"] == ["abort", "segmentation-fault"]


def test_campaign_with_the_fault_of_a_plugin_is_planned(call: Call) -> None:
    planned = call(*ACKPROOF, "run", "abort.yaml", "--dry-run", "--seed", "1")
    assert planned.returncode == 0, planned.stderr
    assert "signal: segmentation-fault" in planned.stdout
    assert f"checkers of plug-ins: misdated ({PLUGIN})" in planned.stdout


def test_manifest_names_the_plugins_that_a_run_uses(call: Call) -> None:
    (run,) = json.loads(call("-P", "-c", MANIFEST, "abort.yaml").stdout)["runs"]
    assert run["plugins"] == {"ackproof-example": "0.1.0"}
    (quick,) = json.loads(call("-P", "-c", MANIFEST, PROJECT / "campaigns" / "quick.yaml").stdout)[
        "runs"
    ]
    # It has no object of the plug-in, and is checked by its checker.
    assert quick["plugins"] == {"ackproof-example": "0.1.0"}
    assert all(cell["checkers"] == {"misdated": PLUGIN} for cell in quick["cells"])


def test_system_of_a_plugin_is_listed_planned_and_named_in_the_manifest(call: Call) -> None:
    shown = call(*ACKPROOF, "systems", "brisk")
    assert shown.returncode == 0, shown.stderr
    assert PLUGIN in shown.stdout
    assert "brisk:SECONDS" in shown.stdout
    planned = call(*ACKPROOF, "run", "brisk.yaml", "--dry-run", "--seed", "1")
    assert planned.returncode == 0, planned.stderr
    manifest = json.loads(call("-P", "-c", MANIFEST, "brisk.yaml").stdout)
    (run,) = manifest["runs"]
    assert manifest["system"] == "brisk:3"
    assert run["plugins"] == {"ackproof-example": "0.1.0"}
    assert run["session_timeout_ms"] == 3000
    assert run["zookeeper"] is True


def test_client_of_a_plugin_is_listed_planned_and_named_in_the_manifest(
    call: Call, tmp_path: Path
) -> None:
    shown = call(*ACKPROOF, "clients", "confluent")
    assert shown.returncode == 0, shown.stderr
    assert PLUGIN in shown.stdout
    quick = (PROJECT / "campaigns" / "quick.yaml").read_text(encoding="utf-8")
    named = tmp_path / "named.yaml"
    named.write_text(quick.replace("cells:\n", "cells:\n  client: confluent\n"), encoding="utf-8")
    (run,) = json.loads(call("-P", "-c", MANIFEST, named).stdout)["runs"]
    assert run["plugins"] == {"ackproof-example": "0.1.0"}
    named.write_text(quick.replace("cells:\n", "cells:\n  client: confluemt\n"), encoding="utf-8")
    refused = call(*ACKPROOF, "validate", named)
    assert refused.returncode == 2
    told = "cells.client: librdkafka, java, aiokafka, franz-go, confluent, or the path of a program"
    assert told in refused.stderr


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--system", "brisk:61"), "a session of 2 to 60 seconds (brisk:6), not '61'"),
        (("--system", "brisc"), "unknown system 'brisc'; did you mean brisk?"),
        (("--metadata-quorum", "combined-kraft"), "brisk:3 keeps its metadata in ZooKeeper"),
    ],
)
def test_wrong_system_of_a_plugin_is_refused(
    call: Call, options: tuple[str, str], problem: str
) -> None:
    refused = call(*ACKPROOF, "run", "brisk.yaml", "--dry-run", *options)
    assert refused.returncode == 2, refused.stderr
    assert problem in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("written", "instead", "problem"),
    [
        ("signal: segmentation-fault", "signal: hup", "faults[0].parameters.signal: "),
        ("signal: segmentation-fault", "sgnal: abort", "did you mean signal?"),
        ("leader(acks-all-minisr-2, any)", "zookeeper", "the fault targets brokers"),
        ("fault: abort", "fault: abrot", "unknown fault 'abrot'; did you mean abort?"),
        ("fault: abort", "fault: sleepy", BROKEN),
    ],
)
def test_mistake_in_a_campaign_with_a_plugin_is_refused(
    call: Call, tmp_path: Path, written: str, instead: str, problem: str
) -> None:
    wrong = tmp_path / "wrong.yaml"
    text = (EXAMPLE / "abort.yaml").read_text(encoding="utf-8")
    assert written in text
    wrong.write_text(text.replace(written, instead), encoding="utf-8")
    refused = call(*ACKPROOF, "validate", wrong)
    assert refused.returncode == 2, refused.stderr
    assert problem in refused.stderr
    assert "Traceback" not in refused.stderr


def test_broken_plugin_is_explained_where_it_is_asked_for_and_breaks_nothing_else(
    call: Call,
) -> None:
    for command in ("faults", "explain"):
        refused = call(*ACKPROOF, command, "sleepy")
        assert refused.returncode == 2
        assert BROKEN in refused.stderr
    assert call(*ACKPROOF, "validate", PROJECT / "campaigns" / "quick.yaml").returncode == 0


def test_doctor_lists_plugins_with_their_versions(call: Call) -> None:
    program = "from ackproof.harness.commands import doctor\n"
    found = call("-P", "-c", program + "print(doctor._plugins())")
    assert found.returncode == 0, found.stderr
    assert f"fault abort ({PLUGIN})" in found.stdout
    assert f"system brisk ({PLUGIN})" in found.stdout
    assert f"client confluent ({PLUGIN})" in found.stdout
    assert BROKEN in found.stdout


def test_checker_of_a_plugin_is_listed_and_explained(call: Call) -> None:
    listed = call(*ACKPROOF, "checkers")
    assert listed.returncode == 0, listed.stderr
    assert f"misdated belongs to the plug-in {PLUGIN}" in listed.stdout
    assert "no-misdated: a guarantee" in call(*ACKPROOF, "explain", "no-misdated").stdout


@pytest.mark.spark
def test_checker_of_a_plugin_runs_in_the_tasks_of_spark(call: Call, tmp_path: Path) -> None:
    made = call("-P", "-c", MISDATED, tmp_path / "made")
    assert made.returncode == 0, made.stderr
    done = call(*ACKPROOF, "check", tmp_path / "made")
    assert done.returncode == 1, done.stdout + done.stderr
    verdict = json.loads((tmp_path / "made" / "verdict.json").read_text(encoding="utf-8"))
    (cell,) = verdict["cells"]
    (guarantee,) = [one for one in cell["guarantees"] if one["name"] == "no-misdated"]
    assert (guarantee["broken"], guarantee["plugin"]) == (1, PLUGIN)
    assert verdict["anomalies"]["misdated"] == 1


# tests/plugins try the conformance kit on sound and on broken plug-ins of each kind.
@pytest.mark.long
def test_example_passes_its_own_conformance_tests(call: Call) -> None:
    done = call("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "15 passed" in done.stdout
