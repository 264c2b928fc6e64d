"""Hooks of MkDocs for the documentation site: links from pages to files outside ``docs/``.

Such a link (a campaign, a source file, the README) is written as a path relative to the page, so
that it works where the repository is browsed. On the site it leads to ``extra.repository`` of
``mkdocs.yml``; while that is empty, the path is shown as code. A link to a file that is not in the
checkout is a warning, which fails a strict build, and so is one to a heading that its page lacks.
"""

import logging
import posixpath
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import Element, SubElement

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

_LOG = logging.getLogger("mkdocs.hooks.links")
_BEFORE_MKDOCS = 5
"""A priority: above that of MkDocs' own check of links, below that of inline Markdown."""
_SLUGS = slugify(case="lower")
"""The ids that code forges give to headings, so that an anchor works there and on the site."""


class RepositoryLinks(Extension):
    """A Markdown extension that resolves links to files of the checkout outside ``docs/``.

    Attributes:
        checkout: The directory of the checkout.
        docs: The directory of the pages, relative to the checkout.
        repository: The address of the repository; empty where there is none.
        page: The page that is rendered, relative to ``docs``.
    """

    def __init__(self, checkout: Path, docs: str, repository: str) -> None:
        super().__init__()
        self.checkout = checkout
        self.docs = docs
        self.repository = repository.rstrip("/")
        self.page = ""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - Markdown's own name
        """Register the extension."""
        md.treeprocessors.register(_Links(md, self), "repository-links", _BEFORE_MKDOCS)

    def resolve(self, link: Element) -> None:
        """Change a link to a file outside ``docs`` in place, and leave every other as it is."""
        target = urlsplit(link.get("href", ""))
        if target.scheme or target.netloc or not target.path:
            return
        beside = posixpath.dirname(posixpath.join(self.docs, self.page))
        path = posixpath.normpath(posixpath.join(beside, unquote(target.path)))
        if path.startswith(f"{self.docs}/"):
            return
        if problem := self._problem(path, target.fragment):
            _LOG.warning("%s: the link to %s: %s", self.page, link.get("href"), problem)
        if self.repository:
            fragment = f"#{target.fragment}" if target.fragment else ""
            link.set("href", f"{self.repository}/blob/HEAD/{path}{fragment}")
            return
        _show(link, path)

    def _problem(self, path: str, fragment: str) -> str | None:
        """Return what is wrong with a link to a file of the checkout."""
        file = self.checkout / path
        if path.startswith("..") or not file.exists():
            return f"there is no {path} in the checkout"
        if fragment and file.suffix == ".md":
            headings = Markdown(extensions=["toc", "fenced_code"], extension_configs=_TOC)
            headings.convert(file.read_text(encoding="utf-8"))
            if fragment not in _ids(headings.toc_tokens):  # type: ignore[attr-defined]
                return f"{path} has no heading #{fragment}"
        return None


class _Links(Treeprocessor):
    """A tree processor that resolves the links of a page."""

    def __init__(self, md: Markdown, extension: RepositoryLinks) -> None:
        super().__init__(md)
        self.extension = extension

    def run(self, root: Element) -> None:
        """Resolve each link."""
        for link in root.iter("a"):
            self.extension.resolve(link)


def _show(link: Element, path: str) -> None:
    """Change a link into text in place, followed by the path where the text does not name it."""
    link.tag = "span"
    del link.attrib["href"]
    link.set("title", f"{path} in the repository")
    if "".join(link.itertext()) not in path:
        code = SubElement(link, "code")
        code.text = AtomicString(path)
        last = link[-2] if len(link) > 1 else None
        if last is None:
            link.text = f"{link.text or ''} "
        else:
            last.tail = f"{last.tail or ''} "


_TOC = {"toc": {"slugify": _SLUGS}}


def _ids(headings: list[dict[str, object]]) -> set[str]:
    """Return the ids of headings and of those below them."""
    found: set[str] = set()
    for heading in headings:
        found |= {str(heading["id"]), *_ids(heading["children"])}  # type: ignore[arg-type]
    return found


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the extension to MkDocs' Markdown."""
    docs = Path(config.docs_dir)
    links = RepositoryLinks(docs.parent, docs.name, str(config.extra["repository"] or ""))
    config.markdown_extensions.append(links)  # type: ignore[arg-type]
    config.mdx_configs.setdefault("toc", {})["slugify"] = _SLUGS
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Note which page is rendered, which Markdown does not tell its extensions."""
    for one in config.markdown_extensions:
        if isinstance(one, RepositoryLinks):
            one.page = page.file.src_uri
    return markdown
