"""The snippets of ``docs/ci.md``, read from the page."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

PAGE = Path(__file__).parents[3] / "docs" / "ci.md"
_SNIPPET = re.compile(r"^#{2,3} (\w+)$|^```(yaml|groovy)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def snippets(server: str) -> Sequence[str]:
    """Return the snippets for a CI server, in their order: those under headings with its name."""
    found, heading = [], ""
    for name, language, text in _SNIPPET.findall(PAGE.read_text(encoding="utf-8")):
        if name:
            heading = name
        elif heading == server and language:
            found.append(text)
    return found


def github_jobs() -> Mapping[str, Mapping[str, Any]]:
    """Return the jobs of the snippets for GitHub, by name."""
    return {
        name: job
        for text in snippets("GitHub")
        for name, job in yaml.safe_load(text)["jobs"].items()
    }


def gitlab_jobs() -> Mapping[str, Mapping[str, Any]]:
    """Return the jobs of the snippets for GitLab, by name, each with what it extends."""
    jobs = yaml.safe_load("\n".join(snippets("GitLab")))
    return {name: _extended(jobs, job) for name, job in jobs.items()}


def _extended(jobs: Mapping[str, Any], job: Mapping[str, Any]) -> Mapping[str, Any]:
    if "extends" not in job:
        return job
    return _merged(_extended(jobs, jobs[job["extends"]]), job)


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return both mappings in one, as GitLab's ``extends`` does: mappings are merged, and anything
    else of ``own`` replaces that of ``base``."""
    merged = dict(base)
    for key, value in own.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = _merged(base[key], value) if both else value
    return merged
