"""A test cell's messages: the constant text that its author wrote, and no value."""

from __future__ import annotations

import pytest

from autograder.messages import assert_messages


def texts(source: str) -> list[str]:
    """Return the messages of a cell as learners see them."""
    return [message.text for message in assert_messages(source)]


def test_an_asserts_text_is_its_message() -> None:
    assert texts("assert f(1) == 2, 'Try it with 1.'") == ["Try it with 1."]


def test_filled_in_values_become_gaps() -> None:
    assert texts("assert f(x) == 2, f'f({x}) is {f(x)!r:>9}, not 2.'") == ["f(…) is …, not 2."]


def test_an_assertion_error_that_is_raised_counts_too() -> None:
    source = "if f(1) != 2:\n    raise AssertionError(f'{f(1)} is wrong.')"

    assert texts(source) == ["… is wrong."]


@pytest.mark.parametrize(
    "source",
    [
        "assert f(1) == 2",
        "assert f(1) == 2, f(1)",
        "assert f(1) == 2, f'{f(1)}'",
        "assert f(1) == 2, 'f is ' + str(f(1))",
        "raise ValueError('no test')",
        "assert f(1) ==",
        "%%bash\necho 'assert 1, \"x\"'",
    ],
)
def test_what_has_no_constant_text_gives_no_message(source: str) -> None:
    assert texts(source) == []


def test_a_message_fits_an_error_that_it_may_have_made_and_no_other() -> None:
    (message,) = assert_messages("assert f(x) == 2, f'f({x}) is off. (Really.)'")

    assert message.fits("f(17\n18) is off. (Really.)")
    assert not message.fits("f(17) is off. (Really.) And the input was 17.")
    assert not message.fits("f(17) is off. [Really.]")
