"""The fault keeps the contract of a fault: the conformance kit proves it in memory."""

import pytest
from ackproof_example.abort import ABORT

from ackproof.testing.faults import check_fault


@pytest.mark.parametrize("target", ["leader(orders, 0)", "all"])
@pytest.mark.parametrize("signal", ["abort", "segmentation-fault"])
def test_abort_takes_effect_and_is_healed(target: str, signal: str) -> None:
    check_fault(ABORT, target, {"signal": signal})
