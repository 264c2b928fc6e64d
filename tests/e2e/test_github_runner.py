"""The runner that executes workflows in tests: what GitHub's runner does."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.processes.github_runner import Runner


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Runner]:
    """Execute a job with these steps."""

    def executed(*steps: dict[str, object], **contexts: str) -> Runner:
        dotted = {name.replace("__", "."): text for name, text in contexts.items()}
        environ = {"PATH": os.environ["PATH"]}
        runner = Runner(tmp_path / "runner", tmp_path, environ, contexts=dotted)
        runner.job({"steps": list(steps)})
        return runner

    return executed


def test_outputs_variables_and_paths_reach_later_steps(run, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "tool"
    tool.write_text("#!/bin/sh\necho tool of $WHO\n")
    tool.chmod(0o755)
    one = (
        'echo "who=me" >> $GITHUB_OUTPUT; echo "$PWD/bin" >> $GITHUB_PATH\n'
        "printf 'WHO<<END\\nyou\\nEND\\n' >> $GITHUB_ENV; echo sum >> $GITHUB_STEP_SUMMARY"
    )
    done = run({"id": "one", "run": one}, {"run": "tool; echo ${{ steps.one.outputs.who }}"})
    assert (done.failed, done.said, done.summary) == (False, "tool of you\nme\n", "sum\n")


def test_steps_after_a_failure_are_skipped_unless_their_condition_asks_for_it(run) -> None:
    done = run(
        {"run": "echo a; false; echo b"},
        {"run": "echo c"},
        {"if": "always() && env.X != ''", "run": "echo d"},
        {"if": "${{ failure() }}", "run": "echo e"},
        {"if": "!cancelled() && (env.X == '' || false())", "run": "echo f"},
        {"if": "env.X == ''", "run": "echo g"},
    )
    assert done.failed
    assert done.said == "a\ne\nf\n"


@pytest.mark.parametrize(("shell", "status"), [(None, 0), ("bash", 1)])
def test_bash_minds_a_failure_in_a_pipe_only_where_a_step_names_it(run, shell, status) -> None:
    step = {"run": "false | true"} | ({"shell": shell} if shell else {})
    assert run(step).steps[0].status == status


def test_unknown_keys_and_expressions_are_refused(run) -> None:
    with pytest.raises(AssertionError, match="continue-on-error"):
        run({"run": "true", "continue-on-error": True})
    with pytest.raises(AssertionError, match="cannot read"):
        run({"run": "echo ${{ a ?? b }}"})
