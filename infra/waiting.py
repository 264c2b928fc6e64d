"""The one polling loop: wait until something holds, with a deadline and a reason."""

from collections.abc import Callable
from typing import TypeVar

import tenacity

T = TypeVar("T")


class DeadlineExceeded(TimeoutError):  # noqa: N818 - as gRPC and Jepsen call it
    """What was waited for did not come about in time. Carries what was waited for, and why the
    last look at it failed, if it did."""


def wait_until(
    condition: Callable[[], T],
    *,
    timeout: float,
    why: str,
    poll: float = 0.1,
    retry_on: type[Exception] | tuple[type[Exception], ...] = (),
) -> T:
    """Call ``condition`` until it returns something true, and return that.

    Args:
        condition: Looked at every ``poll`` seconds, at least once.
        timeout: Seconds to wait at most; ``DeadlineExceeded`` afterwards.
        why: What is waited for, completing the sentence "waited for ...".
        retry_on: Exceptions of ``condition`` that mean "not yet". Others pass through at once.
    """
    attempts = tenacity.Retrying(
        stop=tenacity.stop_after_delay(timeout),
        wait=tenacity.wait_fixed(poll),
        retry=tenacity.retry_if_result(lambda held: not held)
        | tenacity.retry_if_exception_type(retry_on),
    )
    try:
        return attempts(condition)
    except tenacity.RetryError as last:
        failure = last.last_attempt.exception()
        detail = f": {failure}" if failure else ""
        raise DeadlineExceeded(f"waited {timeout:.1f} s for {why}{detail}") from failure
