"""Values that cross between the examiner and the learner process, as bytes and back.

What crosses: None, bool, int, float, complex, fractions, str, bytes, list, tuple, dict, set,
frozenset, and numpy's numeric scalars and arrays. A subclass becomes its base. Anything else
becomes an `Opaque` marker, which names the type and fails whoever uses it. Objects that appear
twice in a message, or contain themselves, do so on the other side.

A message is a table: one row for each object, in which containers name their items by row number.
So the decoder, which reads what a hostile process wrote, needs no recursion, calls nothing by name,
and takes memory in proportion to the bytes that it was given.

An answer can refer to objects of the message that it answers (its `references`: containers, arrays
and opaque markers, all that has an identity). So a function that returns its argument returns the
caller's own object, and `write_back` does to the caller's objects what the call did to its copies.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn, TypeVar

import msgspec
from msgspec import Meta

if TYPE_CHECKING:
    import numpy as np

MAX_BYTES = 32 * 2**20
MAX_ROWS = 2**20
MAX_DEPTH = 100
# Arithmetic on longer integers takes seconds.
MAX_INT_BYTES = 2**17
MAX_FRACTION_BITS = 4096

# Unequal keys with one hash make a dict quadratic: a few happen by chance, many only by design.
_MAX_COLLISIONS = 100
_MAX_DIMENSIONS = 32


class Malformed(Exception):
    """Bytes that no honest other side writes."""


class TooLarge(Exception):
    """A value exceeds the limits on what crosses."""


class OpaqueValueUsed(Exception):
    """Code used a value that cannot cross."""


class Encoded(NamedTuple):
    """A value as bytes, and its objects that have an identity, in the order of the table."""

    data: bytes
    references: list[object]


class Decoded(NamedTuple):
    """A value from bytes, and its objects that have an identity, in the order of the table."""

    value: Any
    references: list[object]


class Opaque:
    """Stands for a value that cannot cross; any use but `is` raises `OpaqueValueUsed`.

    Args:
        type_name: the type of the value.
        on_use: called at each use, since the code under test may catch the exception.
    """

    __slots__ = ("_on_use", "_type_name")

    def __init__(self, type_name: str, on_use: Callable[[], None] | None = None) -> None:
        object.__setattr__(self, "_type_name", type_name)
        object.__setattr__(self, "_on_use", on_use)


def opaque_type_name(marker: Opaque) -> str:
    """The type of the value that a marker stands for. It does not count as a use."""
    name: str = object.__getattribute__(marker, "_type_name")
    return name


def _used(marker: Opaque, *_: object) -> NoReturn:
    on_use = object.__getattribute__(marker, "_on_use")
    if on_use is not None:
        on_use()
    raise OpaqueValueUsed(
        f"This is a {opaque_type_name(marker)}, which tests cannot use: "
        "they see only numbers, text, lists, tuples, dicts, sets and arrays."
    )


# Operators look their methods up on the type, past __getattribute__, so each one must be there.
_OPERATIONS = """
    abs add aenter aexit aiter and anext await bool bytes call ceil complex contains copy deepcopy
    delattr delete delitem dir divmod enter eq exit float floor floordiv format fspath ge get
    getattribute getitem gt hash iadd iand ifloordiv ilshift imatmul imod imul index instancecheck
    int invert ior ipow irshift isub iter itruediv ixor le len length_hint lshift lt matmul mod mul
    ne neg next or pos pow radd rand rdivmod reduce reduce_ex repr reversed rfloordiv rlshift
    rmatmul rmod rmul ror round rpow rrshift rshift rsub rtruediv rxor set setattr setitem sizeof
    str sub subclasscheck truediv trunc xor
"""
for _operation in _OPERATIONS.split():
    setattr(Opaque, f"__{_operation}__", _used)


class _Kind:
    """What a row that is a list stands for; the numbers that follow are rows, unless said."""

    LIST = 0
    TUPLE = 1
    DICT = 2
    """Key, value, key, value..."""
    SET = 3
    FROZENSET = 4
    BYTES = 5
    """The index, no row, of the bytes."""
    INT = 6
    """Two's complement, little-endian: for those of more than 64 bits."""
    STR = 7
    """UTF-8 with surrogates: for those with lone ones."""
    COMPLEX = 8
    NUMPY_SCALAR = 9
    """Data type, bytes."""
    ARRAY = 10
    """Data type, bytes, and the shape."""
    OPAQUE = 11
    """Type name."""
    KNOWN = 12
    """The index, no row, of an object of the message that this one answers."""

    FRACTION = 13
    """Numerator, denominator."""
    LAST = FRACTION


_Row = bool | int | float | str | list[int] | None


class _Table(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A message: the row of the value itself, all rows, and the bytes that rows refer to."""

    root: int
    rows: Annotated[list[_Row], Meta(max_length=MAX_ROWS)]
    blobs: Annotated[list[bytes], Meta(max_length=MAX_ROWS)]


_read_table = msgspec.msgpack.Decoder(_Table).decode
_write_table = msgspec.msgpack.Encoder().encode

# Names that numpy gives native data types, and their sizes; the long double is the platform's own.
_ITEM_SIZES = {
    f"{'|' if size == 1 else '<' if sys.byteorder == 'little' else '>'}{kind}{size}": size
    for kind, sizes in {
        "b": (1,),
        "i": (1, 2, 4, 8),
        "u": (1, 2, 4, 8),
        "f": (2, 4, 8, 16),
        "c": (8, 16, 32),
    }.items()
    for size in sizes
}

_CONTAINERS: tuple[tuple[type, int], ...] = (
    (list, _Kind.LIST),
    (tuple, _Kind.TUPLE),
    (dict, _Kind.DICT),
    (set, _Kind.SET),
    (frozenset, _Kind.FROZENSET),
)
_SCALARS = frozenset({bool, float, type(None)})
_SEQUENCES = (_Kind.LIST, _Kind.TUPLE)
_BUILT_AT_ONCE = (_Kind.TUPLE, _Kind.FROZENSET)
_FILLED_LATER: dict[int, type[Any]] = {
    _Kind.LIST: list,
    _Kind.DICT: dict,
    _Kind.SET: set,
}
_KEYS = (int, float, complex, str, bytes)
_PLAIN_COPIES: tuple[tuple[type, Callable[[Any], object]], ...] = (
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
    (bytes, lambda value: bytes.__add__(value, b"")),
)


def encode(value: object, known: Sequence[object] = ()) -> bytes:
    """Write a value as bytes.

    Args:
        known: the references of the message that this one answers.

    Raises:
        TooLarge: it has more than `MAX_BYTES`, `MAX_ROWS` objects or `MAX_DEPTH` levels.
    """
    return encode_with_references(value, known).data


def encode_with_references(value: object, known: Sequence[object] = ()) -> Encoded:
    """Write a value as bytes, and collect the references that an answer may use; see `encode`."""
    writer = _Writer(known)
    try:
        root = writer.add(value, 0)
    except RecursionError:
        raise TooLarge("nested too deeply") from None
    data = _write_table(_Table(root, writer.rows, writer.blobs))
    if len(data) > MAX_BYTES:
        raise TooLarge(f"more than {MAX_BYTES} bytes")
    return Encoded(data, writer.references)


def decode(
    data: bytes, known: Sequence[object] = (), on_use: Callable[[], None] | None = None
) -> Any:
    """Read a value from bytes that may come from anyone.

    Args:
        known: the references of the message that this one answers.
        on_use: called when an opaque value in it is used.

    Raises:
        Malformed: `encode` did not write these bytes.
    """
    return decode_with_references(data, known, on_use).value


def decode_with_references(
    data: bytes, known: Sequence[object] = (), on_use: Callable[[], None] | None = None
) -> Decoded:
    """Read a value from bytes, and collect the references that an answer may use; see `decode`."""
    _require(len(data) <= MAX_BYTES, "too many bytes")
    try:
        table = _read_table(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(str(error)) from None
    _require(_within([table.root], len(table.rows)), "no such row")
    reader = _Reader(table, known, on_use)
    return Decoded(reader.values[table.root], reader.references)


def is_scalar(value: object) -> bool:
    """Say whether a value is so plain that it needs no table; most arguments and results are."""
    kind = type(value)
    if kind is int:
        return -(2**63) <= value < 2**63  # type: ignore[operator]
    return kind in _SCALARS or (kind is str and value.isascii())  # type: ignore[attr-defined]


def type_name(value: object) -> str:
    """The name of a value's type as people write it: `generator`, `pandas.DataFrame`."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return _plain_name(name.removeprefix("builtins.").removeprefix("__main__."))


def write_back(references: Sequence[object], changed: object) -> None:
    """Give the caller's objects the contents that a call gave to its copies of them.

    Args:
        references: the caller's objects, from `encode_with_references`.
        changed: a dict of the new contents, by index, decoded with these references known.

    Raises:
        Malformed: an index or the type of the contents does not fit.
    """
    if type(changed) is not dict:
        raise Malformed("no dict of changes")
    for index, contents in changed.items():
        _require(type(index) is int and 0 <= index < len(references), "no such reference")
        target: Any = references[index]
        if isinstance(target, list) and type(contents) is list:
            target[:] = contents
        elif isinstance(target, (dict, set)) and isinstance(target, type(contents)):
            target.clear()
            target.update(contents)
        elif _is_array(target) and type(contents) is _numpy().ndarray:
            _require(target.flags.writeable, "a read-only array changed")
            _require(target.shape == contents.shape, "an array changed its shape")
            target[...] = contents
        else:
            raise Malformed("contents of another type")


class _Writer:
    """Builds the table of a message."""

    def __init__(self, known: Sequence[object]) -> None:
        self.rows: list[_Row] = []
        self.blobs: list[bytes] = []
        self.references: list[object] = []
        self._row_of: dict[int, int] = {}
        self._known = {id(reference): index for index, reference in enumerate(known)}

    def add(self, value: Any, depth: int) -> int:
        """Add a value and what it contains; returns its row."""
        kind = type(value)
        if kind is float or kind is bool or value is None:
            return self._append(value)
        if kind is int:
            return self._add_int(value)
        if kind is str:
            return self._add_str(value)
        if kind is bytes:
            return self._add_bytes(value)
        if (row := self._row_of.get(id(value))) is not None:
            return row
        if (index := self._known.get(id(value))) is not None:
            return self._append([_Kind.KNOWN, index])
        if kind is Opaque:
            return self._add_opaque(value, opaque_type_name(value))
        for base, tag in _CONTAINERS:
            if issubclass(kind, base):
                return self._add_container(value, base, tag, depth)
        return self._add_other(value, kind)

    def _append(self, row: _Row) -> int:
        if len(self.rows) >= MAX_ROWS:
            raise TooLarge(f"more than {MAX_ROWS} objects")
        self.rows.append(row)
        return len(self.rows) - 1

    def _add_int(self, value: int) -> int:
        if -(2**63) <= value < 2**64:
            return self._append(value)
        size = value.bit_length() // 8 + 1
        if size > MAX_INT_BYTES:
            raise TooLarge(f"an integer of {size} bytes")
        data = self._add_bytes(value.to_bytes(size, "little", signed=True))
        return self._append([_Kind.INT, data])

    def _add_str(self, value: str) -> int:
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                data = self._add_bytes(value.encode("utf-8", "surrogatepass"))
                return self._append([_Kind.STR, data])
        return self._append(value)

    def _add_bytes(self, value: bytes) -> int:
        self.blobs.append(value)
        return self._append([_Kind.BYTES, len(self.blobs) - 1])

    def _add_opaque(self, value: object, name: str) -> int:
        row = self._append([_Kind.OPAQUE, self._add_str(name)])
        return self._remember(value, row)

    def _remember(self, value: object, row: int) -> int:
        self.references.append(value)
        self._row_of[id(value)] = row
        return row

    def _add_container(self, value: Any, base: type[Any], tag: int, depth: int) -> int:
        if depth >= MAX_DEPTH:
            raise TooLarge(f"more than {MAX_DEPTH} levels")
        # Through the base: an iterator that a subclass defines says something else.
        items: Iterable[object] = base.__iter__(value)
        if tag == _Kind.DICT:
            base = OrderedDict if isinstance(value, OrderedDict) else dict
            pairs = list(base.items(value))
            keys: Iterable[object] = [key for key, _ in pairs]
            items = [part for pair in pairs for part in pair]
        else:
            keys = () if tag in _SEQUENCES else base.__iter__(value)
        if not all(map(_crosses_as_key, keys)):
            return self._add_opaque(value, f"{type_name(value)} with keys of another type")
        row: list[int] = [tag]
        if tag not in _BUILT_AT_ONCE:
            number = self._remember(value, self._append(row))
            row.extend([self.add(item, depth + 1) for item in items])
            return number
        row.extend([self.add(item, depth + 1) for item in items])
        # A tuple in a list in itself has been added on the way.
        number = self._row_of.get(id(value), -1)
        if number < 0:
            number = self._row_of[id(value)] = self._append(row)
        return number

    def _add_other(self, value: Any, kind: type) -> int:
        if "numpy" in sys.modules:
            np = _numpy()
            if issubclass(kind, np.generic) and value.dtype.str in _ITEM_SIZES:
                dtype, data = self._append(value.dtype.str), self._add_bytes(value.tobytes())
                return self._append([_Kind.NUMPY_SCALAR, dtype, data])
            if issubclass(kind, np.ndarray):
                return self._add_array(value)
        if issubclass(kind, complex):
            parts = [self._append(value.real), self._append(value.imag)]
            return self._append([_Kind.COMPLEX, *parts])
        if _is_fraction(value, kind):
            terms = (self.add(value.numerator, 0), self.add(value.denominator, 0))
            return self._append([_Kind.FRACTION, *terms])
        for base, plain in _PLAIN_COPIES:
            if issubclass(kind, base):
                return self.add(plain(value), 0)
        return self._add_opaque(value, type_name(value))

    def _add_array(self, value: np.ndarray[Any, Any]) -> int:
        dtype = value.dtype.newbyteorder("=")
        if dtype.str not in _ITEM_SIZES:
            return self._add_opaque(value, f"{type_name(value)} of {dtype.name}")
        if value.nbytes > MAX_BYTES:
            raise TooLarge(f"an array of {value.nbytes} bytes")
        data = self._add_bytes(_numpy().asarray(value, dtype=dtype).tobytes())
        parts = [self._append(dtype.str), data, *map(self._append, value.shape)]
        return self._remember(value, self._append([_Kind.ARRAY, *parts]))


class _Reader:
    """Builds the objects of a table."""

    def __init__(
        self, table: _Table, known: Sequence[object], on_use: Callable[[], None] | None
    ) -> None:
        self.values: list[Any] = []
        self.references: list[object] = []
        self._known = known
        self._on_use = on_use
        self._shapes: dict[int, tuple[int, int]] = {}
        unfilled: list[tuple[Any, list[int]]] = []
        for number, row in enumerate(table.rows):
            if type(row) is not list:
                self.values.append(row)
                continue
            _require(bool(row) and 0 <= row[0] <= _Kind.LAST, "no such kind of row")
            kind, *numbers = row
            if kind in _FILLED_LATER:
                _require(_within(numbers, len(table.rows)), "no such row")
                container = _FILLED_LATER[kind]()
                unfilled.append((container, numbers))
                self._remember(container)
            elif kind == _Kind.KNOWN or kind == _Kind.BYTES:
                shelf: Sequence[object] = known if kind == _Kind.KNOWN else table.blobs
                _require(len(numbers) == 1 and _within(numbers, len(shelf)), "nothing there")
                self.values.append(shelf[numbers[0]])
            else:
                _require(_within(numbers, number), "a row before its parts")
                self._build(kind, numbers)
        for container, numbers in unfilled:
            self._fill(container, [self.values[number] for number in numbers])

    def _remember(self, value: object) -> None:
        self.references.append(value)
        self.values.append(value)

    def _build(self, kind: int, numbers: list[int]) -> None:
        parts = [self.values[number] for number in numbers]
        if kind in _BUILT_AT_ONCE:
            self._limit_hashing(numbers)
            self.values.append(
                tuple(parts) if kind == _Kind.TUPLE else _unordered(frozenset, parts)
            )
        elif kind == _Kind.OPAQUE:
            _expect(parts, str)
            self._remember(Opaque(_plain_name(parts[0]), self._on_use))
        elif kind == _Kind.ARRAY:
            dtype, data = _expect(parts[:2], str, bytes)
            self._remember(_array(dtype, data, parts[2:]))
        elif kind == _Kind.NUMPY_SCALAR:
            dtype, data = _expect(parts, str, bytes)
            self.values.append(_array(dtype, data, [])[()])
        elif kind == _Kind.COMPLEX:
            self.values.append(complex(*_expect(parts, float, float)))
        elif kind == _Kind.FRACTION:
            terms = _expect(parts, int, int)
            _require(terms[1] > 0 and _is_short(*terms), "no fraction")
            self.values.append(_fraction()(*terms))
        elif kind == _Kind.INT:
            (data,) = _expect(parts, bytes)
            _require(len(data) <= MAX_INT_BYTES, "too large an integer")
            self.values.append(int.from_bytes(data, "little", signed=True))
        else:
            (data,) = _expect(parts, bytes)
            try:
                self.values.append(data.decode("utf-8", "surrogatepass"))
            except UnicodeDecodeError:
                raise Malformed("no text") from None

    def _limit_hashing(self, numbers: list[int]) -> None:
        """Hashing a tuple visits all that is in it, each time it is in it, by recursion in C."""
        parts = [self._shapes.get(number, (0, 1)) for number in numbers]
        depth = 1 + max((depth for depth, _ in parts), default=0)
        size = 1 + sum(size for _, size in parts)
        _require(depth <= MAX_DEPTH and size <= MAX_ROWS, "too large a tuple")
        self._shapes[len(self.values)] = depth, size

    def _fill(self, container: Any, parts: list[Any]) -> None:
        if type(container) is list:
            container.extend(parts)
        elif type(container) is set:
            container |= _unordered(set, parts)
        else:
            _require(len(parts) % 2 == 0, "a key without a value")
            keys = parts[::2]
            _limit_collisions(keys)
            container.update(zip(keys, parts[1::2], strict=True))
            _require(len(container) == len(keys), "a key twice")


_Collection = TypeVar("_Collection", set[Any], frozenset[Any])


def _unordered(kind: type[_Collection], items: list[Any]) -> _Collection:
    _limit_collisions(items)
    result = kind(items)
    _require(len(result) == len(items), "an item twice")
    return result


def _limit_collisions(keys: list[Any]) -> None:
    try:
        hashes = [hash(key) for key in keys]
    except (TypeError, OpaqueValueUsed):
        raise Malformed("a key that cannot be hashed") from None
    if len(hashes) > _MAX_COLLISIONS:
        _require(max(Counter(hashes).values()) <= _MAX_COLLISIONS, "too many keys of one hash")


def _array(dtype: str, data: bytes, shape: list[Any]) -> Any:
    _require(dtype in _ITEM_SIZES, "no such data type")
    _require(len(shape) <= _MAX_DIMENSIONS, "too many dimensions")
    _require(all(type(length) is int and 0 <= length < 2**48 for length in shape), "no shape")
    _require(math.prod(shape) * _ITEM_SIZES[dtype] == len(data), "bytes that do not fit the shape")
    np = _numpy()
    try:
        if dtype == "|b1":
            # Booleans made of other bytes than 0 and 1 are not equal to themselves.
            return (np.frombuffer(data, np.uint8) != 0).reshape(shape)
        return np.frombuffer(data, np.dtype(dtype)).reshape(shape).copy()
    except (TypeError, ValueError) as error:
        raise Malformed(str(error)) from None


def _crosses_as_key(key: object) -> bool:
    kind = type(key)
    if issubclass(kind, (tuple, frozenset)):
        return all(map(_crosses_as_key, key))  # type: ignore[call-overload]
    if key is None or issubclass(kind, _KEYS) or _is_fraction(key, kind):
        return True
    return "numpy" in sys.modules and issubclass(kind, (_numpy().number, _numpy().bool_))


def _within(numbers: list[int], end: int) -> bool:
    return not numbers or (min(numbers) >= 0 and max(numbers) < end)


def _expect(parts: list[Any], *types: type) -> list[Any]:
    _require(tuple(map(type, parts)) == types, "parts of another type")
    return parts


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Malformed(otherwise)


def _is_array(value: object) -> bool:
    return "numpy" in sys.modules and isinstance(value, _numpy().ndarray)


def _numpy() -> Any:
    # Only once a value needs it: neither side depends on numpy.
    import numpy

    return numpy


def _is_fraction(value: Any, kind: type) -> bool:
    if "fractions" not in sys.modules or not issubclass(kind, _fraction()):
        return False
    return _is_short(value.numerator, value.denominator)


def _is_short(*terms: int) -> bool:
    return all(term.bit_length() <= MAX_FRACTION_BITS for term in terms)


def _fraction() -> Any:
    from fractions import Fraction

    return Fraction


def _plain_name(name: str) -> str:
    return re.sub(r"[^\w.<>\[\] ]", "", name)[:100]
