"""``ackproof explain`` and the catalogues with a name."""

import pytest
from click.testing import CliRunner, Result

from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.checkers.guarantees.table import GUARANTEES
from ackproof.checkers.thresholds import MEASURES
from ackproof.checkers.verdict import Verdict
from ackproof.harness.cli import cli
from ackproof.harness.exit_status import ExitStatus
from ackproof.infra.clients.programs import CLIENTS
from ackproof.infra.systems import SYSTEMS
from ackproof.nemesis import FAULTS
from ackproof.workloads import WORKLOADS


def call(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.mark.parametrize(
    "word",
    [
        *(*CATALOGUE, *GUARANTEES, *MEASURES, *Verdict, *FAULTS, *SYSTEMS, *CLIENTS, *WORKLOADS),
        *(str(one.value) for one in ExitStatus),
    ],
)
def test_each_word_of_a_report_is_explained(word: str) -> None:
    done = call("explain", word)
    assert done.exit_code == 0
    assert done.output.startswith(word)


def test_unknown_word_is_refused_with_the_one_that_was_meant() -> None:
    done = call("explain", "no-acked-record-lots")
    assert done.exit_code == 2
    assert "did you mean no-acked-record-lost?" in done.output


def test_catalogues_show_a_single_entry() -> None:
    fault = call("faults", "isolate")
    assert fault.output.startswith("isolate\n")
    assert "pause-client" not in fault.output
    checker = call("checkers", "lost")
    assert "lost" in checker.output
    assert "duplicated" not in checker.output


@pytest.mark.parametrize("catalogue", ["faults", "checkers"])
def test_catalogues_refuse_an_unknown_name(catalogue: str) -> None:
    assert call(catalogue, "no-such-thing").exit_code == 2
