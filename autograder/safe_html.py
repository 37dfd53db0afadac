"""What others wrote, made fit for a page: Markdown, code and outputs of any content become HTML
that runs nothing and loads nothing.

Whatever the text holds, these functions return; what cannot be shown nicely is shown as it is.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from bleach.sanitizer import Cleaner
from bs4 import BeautifulSoup
from markupsafe import Markup
from nbconvert.filters import strip_ansi
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

LONGEST_MARKUP: Final = 100_000
"""Characters of Markdown, HTML or code beyond which it is shown as plain text."""
LONGEST_TEXT: Final = 20_000
"""Characters of plain text after which it is cut."""
DEEPEST: Final = 200
"""Elements within elements beyond which HTML is shown as plain text: cleaning takes time that grows
with the square of it."""

CODE_CSS: Final[str] = HtmlFormatter(style="default").get_style_defs(".highlight")

# fmt: off
_TAGS: Final = frozenset({
    "a", "abbr", "b", "blockquote", "br", "caption", "code", "dd", "del", "details", "div", "dl",
    "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "kbd", "li", "ol", "p", "pre",
    "s", "small", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th",
    "thead", "tr", "u", "ul", "var",
})
# fmt: on
_WITHOUT_CONTENT: Final = ("script", "style", "template", "svg", "iframe", "object", "noscript")
"""Elements whose content is no text to read."""
_IMAGE: Final = re.compile(r"data:image/(png|jpeg|gif|svg\+xml);base64,[A-Za-z0-9+/=\s]+")
_LINK: Final = re.compile(r"(https?:|mailto:|#)", re.IGNORECASE)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=\s]+")


def _allowed(tag: str, name: str, value: str) -> bool:
    match tag, name:
        case "img", "src":
            return _IMAGE.fullmatch(value) is not None
        case "a", "href":
            return _LINK.match(value) is not None
        case ("img", "alt") | (_, "title"):
            return True
        case ("td" | "th", "colspan" | "rowspan"):
            return value.isdecimal() and len(value) < 4
    return False


_cleaner: Final = Cleaner(
    tags=_TAGS, attributes=_allowed, protocols={"http", "https", "mailto", "data"}, strip=True
)
_formatter: Final[Any] = HtmlFormatter(cssclass="highlight")


def plain(text: str) -> Markup:
    """Return text as it is, cut when it is very long."""
    text = strip_ansi(text)
    if len(text) > LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT]}\n… ({len(text) - LONGEST_TEXT:,} more characters)"
    return Markup("<pre>{}</pre>").format(text)


def _or_plain(text: str, render: Callable[[str], str]) -> Markup:
    if len(text) > LONGEST_MARKUP:
        return plain(text)
    try:
        return Markup(render(text))  # noqa: S704 - what the callers give is clean
    except Exception:
        # Parsers fail on hostile text in more ways than anyone has listed.
        return plain(text)


def html(text: str) -> Markup:
    """Return HTML without what could run, load, or pose as a part of the page."""
    return _or_plain(text, _clean)


def _clean(text: str) -> str:
    soup = BeautifulSoup(text, "html.parser")
    if _depth(soup) > DEEPEST:
        raise _TooDeep
    for element in soup(_WITHOUT_CONTENT):
        element.decompose()
    return _cleaner.clean(str(soup))


class _TooDeep(Exception):
    """It has more elements within elements than `DEEPEST`."""


def _depth(soup: BeautifulSoup) -> int:
    depths = {id(soup): 0}
    for element in soup.find_all(True):
        depths[id(element)] = depths[id(element.parent)] + 1
    return max(depths.values())


def markdown(text: str, attachments: Mapping[str, Any] | None = None) -> Markup:
    """Return rendered Markdown; formulas stay as their TeX source.

    Args:
        text: the Markdown.
        attachments: the cell's pictures, as the notebook format has them.
    """
    return _markdown(text) if not attachments else _or_plain(text, _renderer(attachments))


@lru_cache(maxsize=256)
def _markdown(text: str) -> Markup:
    # A lesson's prose is the same in every learner's notebook.
    return _or_plain(text, _renderer({}))


def _renderer(attachments: Mapping[str, Any]) -> Callable[[str], str]:
    def render(text: str) -> str:
        renderer = IPythonRenderer(
            escape=False, exclude_anchor_links=True, attachments=dict(attachments)
        )
        return _clean(MarkdownWithMath(renderer=renderer).render(text))

    return render


@lru_cache(maxsize=256)
def code(text: str) -> Markup:
    """Return Python source with its syntax marked."""
    return _or_plain(text, lambda t: highlight(t, get_lexer_by_name("ipython3"), _formatter))


def output(shown: NotebookNode) -> Markup:
    """Return one output of a code cell, in the richest form that is safe."""
    match shown.output_type:
        case "stream":
            return plain(_joined(shown.text))
        case "error":
            lines = [_joined(line) for line in shown.traceback]
            return plain("\n".join(lines) or f"{shown.ename}: {shown.evalue}")
        case _:
            return _rich({kind: _joined(value) for kind, value in shown.data.items()})


def _rich(data: Mapping[str, str]) -> Markup:
    if "text/html" in data:
        return html(data["text/html"])
    if "image/svg+xml" in data:
        # As an image, where a browser runs no script and loads nothing.
        return _image("svg+xml", b64encode(data["image/svg+xml"].encode("utf-8", "replace")))
    for kind in ("png", "jpeg"):
        picture = data.get(f"image/{kind}", "")
        if _BASE64.fullmatch(picture):
            return _image(kind, picture.encode())
    if "text/markdown" in data:
        return markdown(data["text/markdown"])
    return plain(data.get("text/latex") or data.get("text/plain", ""))


def _image(kind: str, base64: bytes) -> Markup:
    source = f"data:image/{kind};base64,{base64.decode()}"
    return Markup('<img alt="Picture that this cell showed" src="{}">').format(source)


def _joined(value: object) -> str:
    """Return text that the notebook format may hold in lines."""
    return "".join(map(str, value)) if isinstance(value, list) else str(value)


def first_words(text: str) -> str:
    """Return the heading that begins a Markdown text, or its bold opening, or its first line."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if line.startswith("#"):
        words = line.lstrip("#")
    elif bold := re.match(r"\*\*(.+?)\*\*", line):
        words = bold[1]
    else:
        words = line
    words = re.sub(r"[*_`]{1,3}|</?[^>]+>", "", words).strip(" .")
    return words if len(words) <= 80 else words[:79].rstrip() + "…"
