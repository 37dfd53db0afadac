"""Which names a cell binds and which it uses, told from its text without running it."""

from __future__ import annotations

import symtable
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from IPython.core.inputtransformer2 import TransformerManager


@dataclass(frozen=True)
class Names:
    """The global names of a cell.

    Args:
        bound: assigned, defined, imported or deleted by it.
        used: read by it, in nested functions too.
    """

    bound: frozenset[str]
    used: frozenset[str]


NOTHING = Names(frozenset(), frozenset())


@lru_cache(maxsize=4096)
def names(source: str) -> Names:
    """Return the names of a code cell; a cell that is no valid Python has none."""
    try:
        code = TransformerManager().transform_cell(source)
        table = symtable.symtable(code, "cell", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return NOTHING
    bound, used = set(), set()
    for scope, symbol in _symbols(table):
        if scope is not table and not symbol.is_global():
            continue
        name = symbol.get_name()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
            bound.add(name)
        if symbol.is_referenced():
            used.add(name)
    return Names(frozenset(bound), frozenset(used))


def _symbols(table: symtable.SymbolTable) -> Iterator[tuple[symtable.SymbolTable, symtable.Symbol]]:
    pending = [table]
    while pending:
        scope = pending.pop()
        pending.extend(scope.get_children())
        for symbol in scope.get_symbols():
            yield scope, symbol
