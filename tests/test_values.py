from __future__ import annotations

import contextlib
import copy
import enum
import json
import math
import operator
import pickle
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autograder.values import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_INT_BYTES,
    Malformed,
    Opaque,
    OpaqueValueUsed,
    TooLarge,
    decode,
    decode_with_references,
    encode,
    encode_with_references,
    opaque_type_name,
    type_name,
    write_back,
)

ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(2**200), max_value=2**200)
    | st.floats()
    | st.complex_numbers()
    | st.fractions()
    | st.text(st.characters())
    | st.binary()
)
KEYS: st.SearchStrategy[Any] = st.deferred(
    lambda: ATOMS | st.tuples(KEYS, KEYS) | st.frozensets(KEYS, max_size=3)
)
VALUES: st.SearchStrategy[Any] = st.deferred(
    lambda: (
        KEYS
        | st.lists(VALUES, max_size=4)
        | st.lists(VALUES, max_size=3).map(tuple)
        | st.dictionaries(KEYS, VALUES, max_size=4)
        | st.sets(KEYS, max_size=4)
    )
)
NUMBERS = ("?", "b", "B", "h", "H", "i", "I", "q", "Q", "e", "f", "d", "g", "F", "D", "G")


# Time to answer varies on a machine that others use too.
relaxed = settings(max_examples=300, deadline=None, database=None)


def _there(value: object) -> Any:
    return decode(encode(value))


def _same(a: Any, b: Any) -> bool:
    """Equal in type and value at every level, with not-a-number equal to itself."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return _same(list(a), list(b)) and _same(list(a.values()), list(b.values()))
    if isinstance(a, (set, frozenset)):
        return len(a) == len(b) and all(any(_same(x, y) for y in b) for x in a)
    return repr(a) == repr(b)


@relaxed
@given(VALUES)
@example("\ud800")
@example([-0.0, math.nan, -math.inf, 2**63, 2**64, -(2**63) - 1, complex(-0.0, math.nan)])
def test_every_value_arrives_as_it_left(value: object) -> None:
    assert _same(_there(value), value)


@relaxed
@given(st.data())
def test_every_array_and_scalar_arrives_as_it_left(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(NUMBERS)))
    shape = tuple(data.draw(st.lists(st.integers(0, 3), max_size=3)))
    size = math.prod(shape) * dtype.itemsize
    array = np.frombuffer(data.draw(st.binary(min_size=size, max_size=size)), "u1")
    array = (array % 2 if dtype.kind == "b" else array).view(dtype).reshape(shape)
    there = _there(array)
    assert (there.dtype, there.shape) == (array.dtype, array.shape)
    assert there.tobytes() == array.tobytes()
    assert there.flags.writeable
    if array.size:
        scalar = _there(array.flat[0])
        assert scalar.dtype == array.dtype
        assert scalar.tobytes() == array.flat[0].tobytes()


class _Array(np.ndarray[Any, Any]):
    pass


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10)[::3],
        np.zeros(2).view(_Array),
    ],
)
def test_arrays_of_any_layout_arrive_as_plain_ones(array: Any) -> None:
    there = _there(array)
    assert type(there) is np.ndarray
    assert there.dtype.isnative
    assert np.array_equal(there, array)


class _Point(NamedTuple):
    x: int
    y: int


class _Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (_Point(1, 2), (1, 2)),
        (Counter("aab"), {"a": 2, "b": 1}),
        (defaultdict(list, {1: [2]}), {1: [2]}),
        (_Colour.RED, 1),
        ({_Colour.RED: 2}, {1: 2}),
        (type("MyFloat", (float,), {"__add__": lambda a, b: 7})(1.5), 1.5),
        (type("MyStr", (str,), {})("text"), "text"),
        (type("MyBytes", (bytes,), {})(b"text"), b"text"),
        (type("MyComplex", (complex,), {})(1j), 1j),
        (type("MyList", (list,), {"__iter__": lambda self: iter("forged")})([1]), [1]),
        (np.str_("text"), "text"),
    ],
)
def test_a_subclass_becomes_its_base(value: object, plain: object) -> None:
    there = _there(value)
    assert there == plain
    assert type(there) is type(plain)


def test_an_ordered_dict_keeps_the_order_it_was_given() -> None:
    moved = OrderedDict.fromkeys("abc")
    moved.move_to_end("a")
    assert list(_there(moved)) == ["b", "c", "a"]


def test_shared_objects_stay_shared() -> None:
    for shared in ([1], {1: 2}, {1}, np.zeros(2), (1, 2), frozenset({1}), object()):
        there = _there([shared, {"again": shared}])
        assert there[0] is there[1]["again"]


def test_cycles_stay_cycles() -> None:
    items: list[Any] = [1]
    items.append(items)
    table: dict[str, Any] = {}
    table["in"] = (table, items)
    there = _there((items, table, table["in"]))
    assert there[0][1] is there[0]
    assert there[1]["in"][0] is there[1]
    assert there[1]["in"][1] is there[0]
    pair: tuple[Any, ...] = ([],)
    pair[0].append(pair)
    there = _there(pair)
    assert there[0][0][0] is there[0]


class _Thing:
    def __init__(self) -> None:
        self.inside = 1


CANNOT_CROSS: list[tuple[object, str]] = [
    (iter(()), "tuple_iterator"),
    (_Thing(), "tests.test_values._Thing"),
    (_Thing, "type"),
    (len, "builtin_function_or_method"),
    (range(3), "range"),
    (bytearray(1), "bytearray"),
    (Decimal("0.1"), "decimal.Decimal"),
    (np.array([object()]), "numpy.ndarray of object"),
    (np.array(["text"]), "numpy.ndarray of str128"),
    (np.datetime64("2020-01-01"), "numpy.datetime64"),
    ({Decimal(1): 1}, "dict with keys of another type"),
    ({(1, Decimal(1))}, "set with keys of another type"),
]


@pytest.mark.parametrize(("value", "name"), CANNOT_CROSS)
def test_anything_else_arrives_as_a_marker_with_its_type(value: object, name: str) -> None:
    (there,) = _there([value])
    assert type(there) is Opaque
    assert opaque_type_name(there) == name


def test_a_types_name_is_only_a_name() -> None:
    hostile = type("<script>alert('x')\n" + "x" * 1000, (), {})()
    assert type_name(hostile).isprintable()
    assert len(type_name(hostile)) <= 100
    assert opaque_type_name(_there(hostile)) == type_name(hostile)


BINARY = """
    eq ne lt le gt ge add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift matmul getitem
    iadd contains
"""


def _with_one(operate: Callable[[Any, Any], object]) -> Callable[[Any], object]:
    return lambda marker: operate(marker, 1)


USES: list[Callable[[Any], object]] = [
    *(getattr(operator, name) for name in ("neg", "pos", "abs", "inv", "index", "not_", "truth")),
    *(_with_one(getattr(operator, name)) for name in BINARY.split()),
    _with_one(divmod),
    _with_one(round),
    lambda x: 1 + x,
    lambda x: [1][x],
    lambda x: sum([x]),
    lambda x: sorted([x, 1]),
    lambda x: x in (1, 2),
    lambda x: x in {1},
    lambda x: {x: 1},
    bool,
    len,
    iter,
    next,
    list,
    tuple,
    dict,
    hash,
    str,
    repr,
    bytes,
    int,
    float,
    complex,
    round,
    math.floor,
    math.sqrt,
    reversed,
    dir,
    vars,
    print,
    copy.copy,
    copy.deepcopy,
    pickle.dumps,
    json.dumps,
    open,
    lambda x: x(),
    lambda x: x.inside,
    lambda x: x.__class__,
    lambda x: x.__dict__,
    lambda x: getattr(x, "inside", None),
    lambda x: hasattr(x, "inside"),
    lambda x: setattr(x, "inside", 1),
    lambda x: delattr(x, "inside"),
    lambda x: x[0],
    lambda x: operator.setitem(x, 0, 1),
    lambda x: operator.delitem(x, 0),
    lambda x: [*x],
    lambda x: {**x},
    lambda x: print(*x),
    lambda x: f"{x}",
    lambda x: f"{x!r}",
    lambda x: "%s" % x,  # noqa: UP031
    lambda x: "%d" % x,  # noqa: UP031
    lambda x: isinstance(x, float),
    lambda x: isinstance(x, (list, Callable)),  # type: ignore[arg-type]
    lambda x: isinstance(1, x),
    lambda x: issubclass(int, x),
    lambda x: x.__enter__(),
    lambda x: math.isclose(x, 1),
    lambda x: Fraction(1) == x,
    lambda x: 2.0 * x,
    lambda x: "a" + x,
    lambda x: pytest.approx(1) == x,
]


@pytest.mark.parametrize("use", USES)
def test_any_use_of_a_marker_is_recorded_and_raises(use: Callable[[Any], object]) -> None:
    uses: list[bool] = []
    marker = decode(encode(_Thing()), on_use=lambda: uses.append(True))
    try:
        use(marker)
    except (OpaqueValueUsed, TypeError):
        pass
    else:
        pytest.fail("no use of it")
    assert uses


def test_a_marker_in_a_numpy_function_is_recorded() -> None:
    uses: list[bool] = []
    marker = decode(encode(_Thing()), on_use=lambda: uses.append(True))
    with pytest.raises((OpaqueValueUsed, TypeError)):
        np.allclose(marker, 1)
    assert uses


def test_a_marker_says_what_it_is_and_what_tests_can_use() -> None:
    with pytest.raises(
        OpaqueValueUsed, match=r"This is a tuple_iterator, which tests cannot use: "
    ):
        len(_there(iter(())))


def test_identity_is_no_use_of_a_marker() -> None:
    marker = decode(encode(_Thing()), on_use=lambda: pytest.fail("used"))
    assert marker is not None
    assert [marker][0] is marker
    assert type(encode(marker)) is bytes


@pytest.mark.parametrize(
    "value",
    [
        b"x" * (MAX_BYTES + 1),
        "x" * (MAX_BYTES + 1),
        [0] * 2**21,
        1 << (8 * MAX_INT_BYTES),
        np.broadcast_to(np.zeros(1), (2**30,)),
    ],
    ids=["bytes", "text", "list", "integer", "array"],
)
def test_what_is_too_large_does_not_leave(value: object) -> None:
    with pytest.raises(TooLarge):
        encode([value])


def _nested(depth: int, wrap: Callable[[object], object]) -> object:
    value: object = ()
    for _ in range(depth):
        value = wrap(value)
    return value


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: (v,), lambda v: {1: v}])
def test_what_is_too_deep_does_not_leave(wrap: Callable[[object], object]) -> None:
    assert _there(_nested(MAX_DEPTH - 1, wrap)) == _nested(MAX_DEPTH - 1, wrap)
    with pytest.raises(TooLarge):
        encode(_nested(MAX_DEPTH + 1, wrap))
    with pytest.raises(TooLarge):
        encode(_nested(100_000, wrap))


def test_a_tuple_that_unfolds_without_end_is_a_short_message() -> None:
    value = _nested(50, lambda v: (v, v))
    assert len(encode(value)) < 1000
    with pytest.raises(Malformed):
        decode(encode(value))


def _message(root: object, rows: object, blobs: object = ()) -> bytes:
    return msgspec.msgpack.encode((root, rows, blobs))


MALFORMED = {
    "nothing": b"",
    "no table": msgspec.msgpack.encode({"root": 0}),
    "trailing": encode(1) + b"x",
    "no such root": _message(1, [None]),
    "negative root": _message(-1, [None]),
    "an unknown kind": _message(0, [[99]]),
    "a negative kind": _message(0, [[-1]]),
    "a row without kind": _message(0, [[]]),
    "a dangling item": _message(0, [[0, 7]]),
    "a negative item": _message(0, [[0, -1]]),
    "a tuple in itself": _message(0, [[1, 0]]),
    "a tuple before its items": _message(0, [[1, 1], None]),
    "a key without value": _message(1, ["k", [2, 0]]),
    "a key twice": _message(2, [1, True, [2, 0, 0, 1, 1]]),
    "an item twice": _message(2, [1, 1.0, [3, 0, 1]]),
    "a list as a key": _message(1, [[0], [2, 0, 0]]),
    "a list in a set in a tuple": _message(2, [[0], [1, 0], [3, 1]]),
    "a marker as a key": _message(2, ["t", [11, 0], [3, 1]]),
    "bytes that are not there": _message(0, [[5, 0]]),
    "two bytes": _message(0, [[5, 0, 0]], [b""]),
    "an integer of text": _message(1, ["1", [6, 0]]),
    "too long an integer": _message(1, [[5, 0], [6, 0]], [bytes(MAX_INT_BYTES + 1)]),
    "text that is none": _message(1, [[5, 0], [7, 0]], [b"\xff"]),
    "a complex of integers": _message(1, [1, [8, 0, 0]]),
    "a complex of one part": _message(1, [1.0, [8, 0]]),
    "a fraction of floats": _message(2, [1.0, 2.0, [13, 0, 1]]),
    "a fraction of one part": _message(1, [1, [13, 0]]),
    "a fraction without a denominator": _message(2, [1, 0, [13, 0, 1]]),
    "a fraction upside down": _message(2, [1, -2, [13, 0, 1]]),
    "too long a fraction": _message(3, [1, [5, 0], [6, 1], [13, 2, 0]], [bytes(600) + b"\x01"]),
    "an array of objects": _message(2, ["|O8", [5, 0], [10, 0, 1]], [b"12345678"]),
    "an array of text": _message(2, ["<U2", [5, 0], [10, 0, 1]], [b"12345678"]),
    "an array without type": _message(1, [[5, 0], [10, 0]], [b""]),
    "a short array": _message(3, ["<f8", [5, 0], 2, [10, 0, 1, 2]], [b"12345678"]),
    "an array of negative length": _message(3, ["<f8", [5, 0], -1, [10, 0, 1, 2]], [b""]),
    "an array of half a length": _message(3, ["<f8", [5, 0], 0.5, [10, 0, 1, 2]], [b""]),
    "a huge empty array": _message(4, ["|u1", [5, 0], 0, 2**60, [10, 0, 1, 2, 3]], [b""]),
    "too many dimensions": _message(2, ["|u1", [5, 0], [10, 0, 1, *[1] * 65], 1], [b"1"]),
    "an array as a scalar": _message(2, ["<f8", [5, 0], [9, 0, 1]], [bytes(16)]),
    "an unknown reference": _message(0, [[12, 0]]),
    "a negative reference": _message(0, [[12, -1]]),
    "too many rows": _message(0, [None] * (2**20 + 1)),
    "too many bytes": _message(0, [None], [bytes(MAX_BYTES)]),
    "deep nonsense": b"\x91" * 100_000,
    "a map": b"\x93\x00\x91\x81\x01\x01\x90",
    "an extension": b"\x93\x00\x91\xd4\x01\x01\x90",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_what_encode_never_writes_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        decode(data)


@relaxed
@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_a_value(data: bytes) -> None:
    _decode_or_refuse(data)


@relaxed
@given(VALUES, st.data())
def test_mutated_messages_are_refused_or_a_value(value: object, data: st.DataObject) -> None:
    message = bytearray(encode([value, np.arange(3), _Thing()]))
    for _ in range(data.draw(st.integers(1, 4))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    _decode_or_refuse(bytes(message))


ROW = (
    st.none()
    | st.booleans()
    | st.integers(-3, 20)
    | st.floats()
    | st.sampled_from(["", "|b1", "<f8", "<i4", "\u20ac"])
    | st.lists(st.integers(-2, 15), max_size=6)
)


@relaxed
@given(st.integers(-1, 12), st.lists(ROW, max_size=12), st.lists(st.binary(max_size=9), max_size=3))
def test_random_tables_are_refused_or_a_value(
    root: int, rows: list[object], blobs: list[bytes]
) -> None:
    _decode_or_refuse(_message(root, rows, blobs))


def _decode_or_refuse(data: bytes) -> None:
    known: list[object] = [[1], {}, Opaque("thing")]
    try:
        value, references = decode_with_references(data, known)
    except Malformed:
        return
    with contextlib.suppress(Malformed):
        write_back(references, value)
    # What was accepted is a value like any other.
    encode(value, references)


def test_keys_chosen_to_collide_are_refused_at_once() -> None:
    # An integer's hash is its remainder by this prime.
    blobs = [(n * (2**61 - 1)).to_bytes(16, "little") for n in range(100_000)]
    rows = [row for n in range(len(blobs)) for row in ([5, n], [6, 2 * n])]
    rows.append([3, *range(1, len(rows), 2)])
    start = time.perf_counter()
    with pytest.raises(Malformed, match="one hash"):
        decode(_message(len(rows) - 1, rows, blobs))
    assert time.perf_counter() - start < 5


def test_a_large_honest_dict_is_not_mistaken_for_an_attack() -> None:
    table = {n: -n for n in range(50_000)} | {f"{n}": n for n in range(50_000)}
    assert _there(table) == table


def test_a_deep_tuple_cannot_overflow_the_stack_by_its_hash() -> None:
    rows: list[object] = [None, *([1, n] for n in range(200_000))]
    with pytest.raises(Malformed):
        decode(_message(len(rows), [*rows, [3, len(rows) - 1]]))


def test_a_deep_list_arrives_and_can_be_dropped() -> None:
    rows = [*([0, n + 1] for n in range(200_000)), None]
    value = decode(_message(0, rows))
    with pytest.raises(RecursionError):
        repr(value)


def test_booleans_in_an_array_are_zero_or_one() -> None:
    array = decode(_message(3, ["|b1", [5, 0], 2, [10, 0, 1, 2]], [b"\x02\x00"]))
    assert array.view("u1").tolist() == [1, 0]


def test_an_answer_refers_to_the_callers_own_objects() -> None:
    items, stranger = [3, 1], _Thing()
    data, references = encode_with_references((items, stranger))
    copies = decode_with_references(data)
    (their_items, their_stranger), their_references = copies
    answer = encode((their_items, [their_stranger], their_items[:]), their_references)
    mine, (still_stranger,), fresh = decode(answer, references)
    assert mine is items
    assert still_stranger is stranger
    assert fresh == items
    assert fresh is not items


def test_write_back_gives_the_callers_objects_new_contents() -> None:
    inner: list[object] = [1]
    array = np.zeros(3)
    table = defaultdict(int, {"a": 1})
    some = {1}
    items = [inner, array, table, some]
    data, references = encode_with_references(items)
    theirs, their_references = decode_with_references(data)
    changed = {0: [theirs[3], theirs[0]], 1: [5], 2: np.ones(3), 3: {"b": 2}, 4: {9}}
    write_back(references, decode(encode(changed, their_references), references))
    assert items[0] is some
    assert items[1] is inner
    assert inner == [5]
    assert array.tolist() == [1, 1, 1]
    assert table == {"b": 2}
    assert type(table) is defaultdict
    assert some == {9}


def _read_only() -> Any:
    array = np.zeros(2)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("target", "changed"),
    [
        ([1], [[2]]),
        ([1], {1: [2]}),
        ([1], {-1: [2]}),
        ([1], {True: [2]}),
        ([1], {"0": [2]}),
        ([1], {0: {}}),
        ([1], {0: (2,)}),
        ({1: 1}, {0: {1}}),
        ({1}, {0: {1: 1}}),
        (np.zeros(2), {0: np.zeros(3)}),
        (np.zeros(2), {0: [0, 0]}),
        (_read_only(), {0: np.ones(2)}),
        (object(), {0: [1]}),
    ],
)
def test_contents_that_do_not_fit_are_refused(target: object, changed: object) -> None:
    with pytest.raises(Malformed):
        write_back([target], changed)


def test_a_call_of_two_numbers_is_quick() -> None:
    start = time.perf_counter()
    for _ in range(1000):
        decode(encode(((1.0, 2.0), {})))
    # Measured 0.02 ms; a loaded machine is slower.
    assert (time.perf_counter() - start) / 1000 < 0.0005
