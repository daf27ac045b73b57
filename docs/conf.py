"""The documentation's build: `make docs`. Pages are Markdown and read as well in the repository itself."""

import re

project = "unsee"
copyright = "the unsee developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "results/**/*.md", "benchmarks/*.md"]
exclude_patterns = ["docs/built", "results/*/rows"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
html_theme = "furo"
html_title = "unsee"
html_copy_source = False
suppress_warnings = ["toc.not_included"]  # decisions are reached from their own page
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"


def in_plain_words(*given) -> None:
    """Set a docstring as it was written: formulas and examples as code, the rest as text without markup."""
    lines: list[str] = given[-1]
    paragraphs, found = "\n".join(lines).strip().split("\n\n"), []
    for paragraph in paragraphs:
        formula = re.search(r" (=|<-) ", paragraph) and not re.search(r"[.:]$", paragraph.strip())
        if paragraph.lstrip().startswith(">>>") or not formula:
            text = paragraph if paragraph.lstrip().startswith(">>>") else _escaped(paragraph)
            found += [*text.split("\n"), ""]
        else:
            found += ["::", "", *(f"    {line.strip()}" for line in paragraph.split("\n")), ""]
    lines[:] = found


def _escaped(text: str) -> str:
    text = " ".join(line.strip() for line in text.split("\n"))
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(f"`{p}`" if p.startswith("`") else re.sub(r"([*|_\\])", r"\\\1", p) for p in parts)


def setup(app) -> None:
    """Let Sphinx call it on every docstring."""
    app.connect("autodoc-process-docstring", in_plain_words)
