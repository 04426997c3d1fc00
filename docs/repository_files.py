"""A hook of MkDocs: the site also has some files from outside docs/, and links to them work.

In the repository the pages are in docs/, and in the site they are at the top, so some links are rewritten.
A link to a file that the site does not have becomes plain text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_ADDED = ("*.md", "dagster.yaml", "benchmarks/REPORT.md", "benchmarks/charts/*.png")
_LEFT_OUT = {"README.md"}  # index.md is the site's first page
_LINK = re.compile(r"\[([^]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files of the repository under their paths."""
    repository = Path(config.config_file_path or "").parent
    for path in sorted(path for pattern in _ADDED for path in repository.glob(pattern)):
        name = path.relative_to(repository).as_posix()
        if name not in _LEFT_OUT:
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page."""
    del config
    here = page.file.src_uri
    in_repository = here if page.file.generated_by else f"docs/{here}"

    def rewrite(link: re.Match[str]) -> str:
        text, target, anchor = link[1], link[2], link[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(in_repository), target))
        in_site = path.removeprefix("docs/")
        if files.get_file_from_path(in_site) is None:
            return text
        return f"[{text}]({posixpath.relpath(in_site, posixpath.dirname(here) or '.')}{anchor})"

    return _LINK.sub(rewrite, markdown)
