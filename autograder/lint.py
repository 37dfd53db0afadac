"""Reads an instructor's tests and finds what would not work in the examination room.

There a test and the learner's code run in two processes, between which only plain values travel. A
test that compares identities, hands over a function, or looks into the learner's objects passes in
one process and fails in two. What can be told from the text alone is found here; `publish` runs
the rest.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from nbformat import NotebookNode

from autograder.cells import is_grade, is_solution
from autograder.names import names
from autograder.plan import Plan, Side, make_plan
from autograder.reader import Definitions, Remark, parse, read_test
from autograder.trusted import TrustedNotebook, grade_id


@dataclass(frozen=True)
class Finding:
    """Something in a source notebook that an instructor should mend or know.

    Args:
        notebook: the notebook's name, without ending.
        cell: the cell's grade id, or its number where it has none.
        line: the line in the cell, from 1; None where the whole cell is meant.
        problem: what it is, and why it does not work.
        mend: how to write it instead.
        refuses: whether the assignment cannot be released like that.
    """

    notebook: str
    cell: str
    line: int | None
    problem: str
    mend: str
    refuses: bool = True

    def __str__(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        return f"notebook {self.notebook}, cell {self.cell}{line}: {self.problem} {self.mend}"


def lint(trusted: TrustedNotebook, support_files: Container[str] = ()) -> list[Finding]:
    """Return what is wrong with a notebook's tests, in the order of its cells.

    Args:
        trusted: the source.
        support_files: paths of the files that lie beside the notebook.
    """
    cells = trusted.notebook.cells
    plan = make_plan(cells, [cell.source for cell in cells])
    trees = [parse(cell.source) if cell.cell_type == "code" else None for cell in cells]
    definitions = Definitions()
    for tree, side in zip(trees, plan.sides, strict=True):
        if tree is not None:
            definitions.add(tree, learners=side is Side.LEARNER)
    findings: list[Finding] = []
    for index, (cell, tree) in enumerate(zip(cells, trees, strict=True)):
        if tree is None or not is_grade(cell) or plan.sides[index] is not Side.EXAMINER:
            continue
        remarks = read_test(tree, definitions, plan.learner_names[index], support_files)
        remarks += _between_cells(index, tree, cells, plan)
        findings += (
            Finding(trusted.name, _name(trusted, index), r.line, r.problem, r.mend, r.refuses)
            for r in sorted(remarks, key=lambda remark: remark.line)
        )
    return findings


def _name(trusted: TrustedNotebook, index: int) -> str:
    return grade_id(trusted.notebook.cells[index]) or f"number {index + 1}"


def _between_cells(
    index: int, tree: ast.Module, cells: Sequence[NotebookNode], plan: Plan
) -> Iterator[Remark]:
    """Find what a test cell shares with other cells and should not."""
    mine = names(cells[index].source)
    learners_side = [
        (number, cell, names(cell.source))
        for number, (cell, side) in enumerate(zip(cells, plan.sides, strict=True), start=1)
        if side in (Side.LEARNER, Side.BOTH)
    ]
    bound_there = {name for _, _, there in learners_side for name in there.bound}
    for number, _, there in learners_side:
        for name in sorted(mine.bound & there.used - bound_there):
            yield Remark(
                _line_of(tree, name),
                f"`{name}` is bound in this test cell and used by cell number {number}, which runs "
                "on the learner's side; tests run apart.",
                "Bind it in a locked cell that is no test.",
            )
    imported = {
        name
        for _, cell, _ in learners_side
        if is_solution(cell)
        for name in _imported(parse(cell.source))
    }
    for name in sorted(mine.used & imported - plan.trusted_names):
        yield Remark(
            _line_of(tree, name),
            f"`{name}` is imported by the solution only, so that it is whatever the learner makes "
            "of it.",
            "Import it in the test cell.",
        )
    for number, cell, there in learners_side:
        if is_solution(cell) or plan.sides[number - 1] is Side.BOTH:
            continue
        for name in sorted(mine.used & there.bound):
            yield Remark(
                _line_of(tree, name),
                f"`{name}` comes from cell number {number}, which is locked but uses the learner's "
                "names: it runs on the learner's side, where the learner's code could decide it.",
                "Move it into the test cell, or let it take what it needs as arguments.",
                refuses=_defines(cell.source, name),
            )


def _imported(tree: ast.Module | None) -> Iterator[str]:
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)


def _defines(source: str, name: str) -> bool:
    tree = parse(source)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return tree is not None and any(
        isinstance(node, kinds) and node.name == name for node in ast.walk(tree)
    )


def _line_of(tree: ast.Module, name: str) -> int:
    """Return the first line that names it."""
    named = (
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, (ast.stmt, ast.expr))
        and name in (getattr(node, "id", None), getattr(node, "name", None))
    )
    return min(named, default=1)
