"""A small runner of GitHub Actions: it executes the steps of a workflow or of a composite action in
their order, as GitHub's runner does.

It knows the files of the runner (``GITHUB_OUTPUT``, ``GITHUB_ENV``, ``GITHUB_PATH``,
``GITHUB_STEP_SUMMARY``), conditions, inputs and outputs. What it does not know it refuses. A step
with ``uses`` is executed if its action is one of ours; others are listed, with their inputs.

The rules are those of GitHub's documentation: *Workflow commands*, *Expressions* and *Metadata
syntax*.
"""

import re
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.processes.deadlines import PATIENCE_S

_KNOWN = {"name", "id", "if", "uses", "with", "run", "shell", "env", "working-directory"}
_SHELLS = {None: ["bash", "-e"], "bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"]}
_FILES = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")
_STATUS = ("always()", "success()", "failure()", "cancelled()")
_TOKEN = re.compile(r"\s*('(?:[^']|'')*'|&&|\|\||==|!=|!|\(\)|\(|\)|[A-Za-z_][\w.-]*(?:\(\))?)")
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
_ASSIGNMENT = re.compile(r"([^=<\n]+)(?:=(.*)|<<(.*))")


@dataclass(frozen=True, slots=True)
class Done:
    """A step that was reached.

    Attributes:
        status: None where nothing was executed: the step was skipped, or only listed.
        inputs: Those of a step that was listed.
    """

    name: str
    status: int | None = None
    said: str = ""
    uses: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)


class Runner:
    """A runner with one job.

    Args:
        directory: For the files of the runner and for ``RUNNER_TEMP``.
        workspace: Where the steps are executed.
        environ: The environment of every step.
        actions: Our own actions, by what a step ``uses``: the directory with ``action.yml``.
        contexts: Values of further contexts, such as ``github.token``.
        prepared: Names of steps whose work the machine has already done.
    """

    def __init__(
        self,
        directory: Path,
        workspace: Path,
        environ: Mapping[str, str],
        *,
        actions: Mapping[str, Path] | None = None,
        contexts: Mapping[str, str] | None = None,
        prepared: Collection[str] = (),
        timeout_s: float = PATIENCE_S,
    ) -> None:
        self.temp = directory / "temp"
        self.temp.mkdir(parents=True, exist_ok=True)
        self.summary = ""
        self.failed = False
        self.steps: list[Done] = []
        self._directory = directory
        self._workspace = workspace
        self._environ = {"CI": "true", "GITHUB_ACTIONS": "true", **environ}
        self._environ |= {"RUNNER_TEMP": str(self.temp), "GITHUB_WORKSPACE": str(workspace)}
        self._actions = actions or {}
        self._contexts = {"runner.temp": str(self.temp), **(contexts or {})}
        self._prepared = prepared
        self._timeout_s = timeout_s

    @property
    def listed(self) -> Mapping[str, Mapping[str, str]]:
        """The steps that were listed and not executed: their inputs, by the action."""
        return {step.uses: step.inputs for step in self.steps if step.uses is not None}

    @property
    def said(self) -> str:
        """Everything that the steps have printed."""
        return "".join(step.said for step in self.steps)

    def job(self, job: Mapping[str, Any], env: Mapping[str, str] | None = None) -> None:
        """Execute the steps of a job. ``env``: that of the workflow."""
        self._environ |= {**(env or {}), **job.get("env", {})}
        self._run(job["steps"], dict(self._contexts), self._environ)

    def action(self, directory: Path, inputs: Mapping[str, str]) -> Mapping[str, str]:
        """Execute a composite action, and return its outputs."""
        action = yaml.safe_load((directory / "action.yml").read_text(encoding="utf-8"))
        unknown = inputs.keys() - action["inputs"].keys()
        assert not unknown, f"the action has no inputs {sorted(unknown)}"
        given = {name: one.get("default", "") for name, one in action["inputs"].items()} | inputs
        contexts = {**self._contexts, **{f"inputs.{name}": text for name, text in given.items()}}
        steps = action["runs"]["steps"]
        missing = [step for step in steps if "run" in step and "shell" not in step]
        assert not missing, f"a step of a composite action must name its shell: {missing}"
        environ = {**self._environ, "GITHUB_ACTION_PATH": str(directory)}
        self._run(steps, contexts, environ)
        return {
            name: str(self._filled(one["value"], contexts))
            for name, one in action["outputs"].items()
        }

    def _run(
        self, steps: list[Mapping[str, Any]], contexts: dict[str, str], environ: dict[str, str]
    ) -> None:
        for step in steps:
            assert step.keys() <= _KNOWN, f"this runner does not know {step.keys() - _KNOWN}"
            outputs = self._step(step, contexts, environ)
            if "id" in step:
                contexts |= {f"steps.{step['id']}.outputs.{k}": v for k, v in outputs.items()}

    def _step(
        self, step: Mapping[str, Any], contexts: Mapping[str, str], environ: dict[str, str]
    ) -> Mapping[str, str]:
        name = step.get("name") or step.get("uses") or step["run"]
        if name in self._prepared or not self._is_due(str(step.get("if", "")), contexts):
            self.steps.append(Done(name))
            return {}
        if "run" in step:
            return self._execute(name, step, contexts, environ)
        inputs = {
            key: self._filled(str(text), contexts) for key, text in step.get("with", {}).items()
        }
        if step["uses"] in self._actions:
            return self.action(self._actions[step["uses"]], inputs)
        self.steps.append(Done(name, uses=step["uses"], inputs=inputs))
        return {}

    def _execute(
        self,
        name: str,
        step: Mapping[str, Any],
        contexts: Mapping[str, str],
        environ: dict[str, str],
    ) -> Mapping[str, str]:
        files = {one: self._directory / f"{len(self.steps)}.{one}" for one in _FILES}
        for file in files.values():
            file.touch()
        script = self._directory / f"{len(self.steps)}.sh"
        script.write_text(self._filled(step["run"], contexts), encoding="utf-8")
        own = {key: self._filled(str(text), contexts) for key, text in step.get("env", {}).items()}
        done = subprocess.run(
            [*_SHELLS[step.get("shell")], str(script)],
            cwd=self._workspace / step.get("working-directory", "."),
            env={**environ, **own, **{one: str(file) for one, file in files.items()}},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=self._timeout_s,
            check=False,
        )
        self.failed |= done.returncode != 0
        self.steps.append(Done(name, done.returncode, done.stdout))
        read = {one: file.read_text(encoding="utf-8") for one, file in files.items()}
        self.summary += read["GITHUB_STEP_SUMMARY"]
        for later in (environ, self._environ):
            later |= dict(_assignments(read["GITHUB_ENV"]))
            for path in read["GITHUB_PATH"].splitlines():
                later["PATH"] = f"{path}:{later['PATH']}"
        return dict(_assignments(read["GITHUB_OUTPUT"]))

    def _is_due(self, condition: str, contexts: Mapping[str, str]) -> bool:
        text = condition.removeprefix("${{").removesuffix("}}")
        if not any(status in text for status in _STATUS):
            text = f"success() && ({text})" if text else "success()"
        return bool(self._value(text, contexts))

    def _filled(self, text: str, contexts: Mapping[str, str]) -> str:
        return _EXPRESSION.sub(lambda found: str(self._value(found[1], contexts)), text)

    def _value(self, text: str, contexts: Mapping[str, str]) -> str | bool:
        status = {
            "always()": True,
            "success()": not self.failed,
            "failure()": self.failed,
            "cancelled()": False,
        }
        return _Expression(text, lambda name: {**contexts, **status}.get(name, "")).value


class _Expression:
    """An expression of GitHub's, read from left to right."""

    def __init__(self, text: str, look_up: Callable[[str], str | bool]) -> None:
        self._look_up = look_up
        self._tokens = _TOKEN.findall(text)
        rest = _TOKEN.sub("", text).strip()
        assert not rest, f"this runner cannot read {rest!r} in the expression {text!r}"
        self.value = self._either()
        assert not self._tokens, f"the expression {text!r} ends early"

    def _takes(self, *tokens: str) -> str | None:
        return self._tokens.pop(0) if self._tokens and self._tokens[0] in tokens else None

    def _either(self) -> str | bool:
        value = self._both()
        while self._takes("||"):
            other = self._both()
            value = value or other
        return value

    def _both(self) -> str | bool:
        value = self._compared()
        while self._takes("&&"):
            other = self._compared()
            value = value and other
        return value

    def _compared(self) -> str | bool:
        value = self._one()
        if sign := self._takes("==", "!="):
            return (value == self._one()) is (sign == "==")
        return value

    def _one(self) -> str | bool:
        if self._takes("!"):
            return not self._one()
        if self._takes("("):
            value = self._either()
            assert self._takes(")"), "a bracket is not closed"
            return value
        token: str = self._tokens.pop(0)
        return token[1:-1].replace("''", "'") if token.startswith("'") else self._look_up(token)


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    """Yield what a step wrote into a file of the runner: ``name=value``, or ``name<<END`` with the
    lines up to ``END``."""
    lines = iter(text.splitlines())
    for line in lines:
        found = _ASSIGNMENT.fullmatch(line)
        assert found, f"the runner cannot read the line {line!r}"
        name, value, end = found.groups()
        if end is None:
            yield name, value
            continue
        several = []
        for part in lines:
            if part == end:
                break
            several.append(part)
        yield name, "\n".join(several)
