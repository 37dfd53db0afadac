"""The state of `random` and `numpy.random`: a function draws from where its test has seeded.

A test that seeds, calls the learner's function and compares its draw runs in the examiner while the
function runs elsewhere; the state goes there with the call. It does not come back, for then the
learner's code could choose what the test draws next.
"""

from __future__ import annotations

import random
import sys
from array import array
from typing import Any

from autograder.values import Malformed, decode, encode

_WORDS = 624  # of the Mersenne Twister, which both modules use


def seed(number: int) -> None:
    """Seed both modules (numpy's if numpy is imported)."""
    random.seed(number)
    if numpy_random := _numpy_random():
        numpy_random.seed(number % 2**32)


def capture() -> bytes:
    """The present state of both modules, as `values.encode` writes it."""
    version, words, gauss = random.getstate()
    numpy_random = _numpy_random()
    numpy_state = numpy_random.get_state() if numpy_random else None
    return encode((version, array("Q", words).tobytes(), gauss, numpy_state))


def restore(state: bytes) -> None:
    """Set both modules to a captured state.

    Raises:
        Malformed: it is no such state.
    """
    try:
        version, words, gauss, numpy_state = decode(state)
        random.setstate((version, tuple(array("Q", words)), gauss))
        if numpy_state is not None:
            _restore_numpy(*numpy_state)
    except Malformed:
        raise
    except Exception as error:
        raise Malformed(f"no random state: {error}") from None


def _restore_numpy(name: str, key: Any, position: int, has_gauss: int, gauss: float) -> None:
    # numpy trusts the position and would read memory beyond the key.
    plain = (type(position), type(has_gauss), type(gauss)) == (int, int, float)
    if name != "MT19937" or not plain or not 0 <= position <= _WORDS or len(key) != _WORDS:
        raise Malformed("no state of numpy.random")
    if numpy_random := _numpy_random():
        numpy_random.set_state((name, key, position, has_gauss, gauss))


def _numpy_random() -> Any:
    # numpy imports it at first use, which would be after the seeding.
    if "numpy" not in sys.modules:
        return None
    import numpy.random

    return numpy.random
