"""The links of the documentation site. Without the extra `docs` these tests are left out."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="MkDocs is not installed (make docs)")

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

ROOT = Path(__file__).resolve().parents[1]
PAGE = """# A page

[quick](../campaigns/quick.yaml), [all of them](../campaigns), `[code](../missing)`
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one page and one campaign."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns/quick.yaml").touch()
    (tmp_path / "README.md").write_text("# Ackproof\n\n## Quick start\n", encoding="utf-8")
    shutil.copy(ROOT / "docs/site_hooks.py", tmp_path / "docs")
    return tmp_path


def page_of(checkout: Path, markdown: str, repository: str = "") -> str:
    """Build the site of a checkout whose page is ``markdown``, and return the page."""
    (checkout / "docs/index.md").write_text(markdown, encoding="utf-8")
    settings = {
        "site_name": "Ackproof",
        "docs_dir": str(checkout / "docs"),
        "site_dir": str(checkout / "site"),
        "hooks": [str(checkout / "docs/site_hooks.py")],
        "extra": {"repository": repository},
        "theme": {"name": None, "custom_dir": str(checkout / "theme")},
        "plugins": [],
        "strict": True,
    }
    (checkout / "theme").mkdir(exist_ok=True)
    (checkout / "theme/main.html").write_text("{{ page.content }}", encoding="utf-8")
    (checkout / "mkdocs.yml").touch()
    config = load_config(str(checkout / "mkdocs.yml"), **settings)
    build(config)
    return (checkout / "site/index.html").read_text(encoding="utf-8")


def test_links_to_files_outside_docs_become_code_without_repository(checkout: Path) -> None:
    page = page_of(checkout, PAGE)
    assert ">quick</span>" in page
    assert "all of them <code>campaigns</code></span>" in page
    assert "<a href" not in page


def test_links_to_files_outside_docs_lead_to_the_repository(checkout: Path) -> None:
    page = page_of(checkout, PAGE, "https://example.org/o/ackproof/")
    assert 'href="https://example.org/o/ackproof/blob/HEAD/campaigns/quick.yaml"' in page
    assert 'href="https://example.org/o/ackproof/blob/HEAD/campaigns"' in page


@pytest.mark.parametrize(
    "link", ["../campaigns/slow.yaml", "../../elsewhere.md", "../README.md#slow-start", "gone.md"]
)
def test_broken_link_fails_the_build(checkout: Path, link: str) -> None:
    with pytest.raises(Abort):
        page_of(checkout, f"# A page\n\n[text]({link})\n")


def test_link_to_a_heading_outside_docs_is_accepted(checkout: Path) -> None:
    assert "title" in page_of(checkout, "# A page\n\n[README](../README.md#quick-start)\n")
