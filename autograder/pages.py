"""Self-contained HTML pages from the package's templates; all text is escaped unless it is
`Markup`, and the page itself forbids the browser to run scripts or to load anything.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from autograder.safe_html import CODE_CSS


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("autograder"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["points"] = lambda number: f"{number:g}"
    environment.globals["code_css"] = CODE_CSS
    return environment


def page(template: str, **content: Any) -> str:
    """Return the page that a template makes of the content."""
    text = _environment().get_template(template).render(content)
    # A notebook may hold lone surrogates, which no file can.
    return text.encode("utf-8", "replace").decode("utf-8")
