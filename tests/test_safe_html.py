"""Text of any content, made fit for a page."""

from __future__ import annotations

import base64
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_output

from autograder import safe_html
from tests.test_feedback import Reader

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<a href=' java\nscript:alert(1)'>x</a>",
    "<a href='data:text/html,<script>alert(1)</script>'>x</a>",
    "<img src='data:text/html;base64,PHNjcmlwdD4='>",
    "<svg><style><img src=x onerror=alert(1)></style></svg>",
    "<math><mtext><table><mglyph><style><!--</style>"
    "<img title='--&gt;&lt;img src=1 onerror=x&gt;'>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<form action='https://example.org'><button>send</button></form>",
    "<p style='background: url(https://example.org)' id='top' class='verdict'>x</p>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<base href='https://example.org'><meta http-equiv=refresh content='0;url=https://example.org'>",
]


def harmless(content: str) -> bool:
    """Say whether HTML runs nothing, loads nothing, and poses as no part of the page."""
    for tag, attributes in Reader(content).elements:
        if tag not in safe_html._TAGS:
            return False
        for name, value in attributes.items():
            allowed = {
                "href": ("http:", "https:", "mailto:", "#"),
                "src": ("data:image/png;", "data:image/jpeg;", "data:image/gif;", "data:image/svg"),
            }.get(name, ("",))
            if name not in ("href", "src", "alt", "title", "colspan", "rowspan"):
                return False
            if not (value or "").lower().startswith(allowed):
                return False
    return True


@pytest.mark.parametrize("text", HOSTILE)
def test_known_ways_to_smuggle_script_in_do_not_work(text: str) -> None:
    assert harmless(safe_html.html(text))
    assert harmless(safe_html.markdown(text))
    assert harmless(safe_html.markdown(f"- > **{text}**\n\n| {text} |\n|---|\n| x |"))


@given(st.text() | st.lists(st.sampled_from(HOSTILE) | st.text(max_size=5)).map("".join))
def test_no_text_makes_a_page_unsafe_or_fails(text: str) -> None:
    assert harmless(safe_html.html(text))
    assert harmless(safe_html.markdown(text))
    safe_html.code(text)
    safe_html.first_words(text)


@pytest.mark.parametrize("kind", ["text/html", "text/markdown", "text/plain", "text/latex"])
def test_an_output_of_any_kind_is_harmless(kind: str) -> None:
    for text in HOSTILE:
        assert harmless(safe_html.output(new_output("display_data", data={kind: text})))


def test_a_picture_is_shown_as_it_is_and_a_false_one_is_not() -> None:
    picture = base64.b64encode(b"picture").decode()
    shown = new_output("display_data", data={"image/png": picture, "text/plain": "<Figure>"})
    false = new_output("display_data", data={"image/png": "'><script>", "text/plain": "<Figure>"})

    assert f'src="data:image/png;base64,{picture}"' in safe_html.output(shown)
    assert safe_html.output(false) == "<pre>&lt;Figure&gt;</pre>"


def test_text_that_never_ends_is_cut_and_says_so() -> None:
    shown = safe_html.output(new_output("stream", text="x" * 1_000_000))

    assert len(shown) < 30_000
    assert "980,000 more characters" in shown


def test_deep_nesting_ends_soon_and_in_text() -> None:
    begun = time.monotonic()
    for deep in (safe_html.html("<b>" * 30_000), safe_html.markdown("<div>\n" * 15_000)):
        assert harmless(deep)
        assert deep.startswith("<pre>")
    assert harmless(safe_html.markdown("> " * 20_000))

    assert time.monotonic() - begun < 20


def test_what_is_nested_as_usual_is_shown() -> None:
    nested = "<div>" * 100 + "<b>x</b>" + "</div>" * 100

    assert safe_html.html(nested) == nested


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# 3.1 *How* long?\n\nText.", "3.1 How long?"),
        ("**The slow link.** The same.", "The slow link"),
        ("\n\nA line of text.\nMore.", "A line of text"),
        ("", ""),
    ],
)
def test_a_cells_first_words_name_it(text: str, words: str) -> None:
    assert safe_html.first_words(text) == words
