"""Brings a notebook of any shape into order: what it returns is valid format 4.5.

nbformat's own validation names the first fault and takes longer than a grading; here each faulty
part is mended or left out, so that one bad cell costs nobody the whole notebook. The same input
always gives the same notebook, made-up cell ids included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any, Final

from nbformat import NotebookNode

MADE_UP_ID: Final = "unnamed"
DEEPEST: Final = 20
"""Levels of nesting that metadata and JSON outputs may have; real ones stay far below."""

_CELL_TYPES: Final = frozenset({"code", "markdown", "raw"})
_VALID_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def tidy_notebook(content: object) -> NotebookNode:
    """Return the notebook that parsed JSON describes, as well as it can be made out."""
    notebook = _dict(content)
    raw_cells = [cell for cell in _list(notebook.get("cells")) if isinstance(cell, dict)]
    return NotebookNode(
        {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": _metadata(notebook.get("metadata")),
            "cells": [
                _cell(cell, cell_id)
                for cell, cell_id in zip(raw_cells, _ids(raw_cells), strict=True)
            ],
        }
    )


def fresh_ids(prefix: str, taken: set[str]) -> Iterator[str]:
    """Yield cell ids that are not taken yet."""
    return (name for n in count(1) if (name := f"{prefix}-{n}") not in taken)


def new_cell(cell_type: str, cell_id: str, source: str, **parts: Any) -> NotebookNode:
    """Return a cell; a code cell has no outputs and no execution count unless they are given."""
    cell: dict[str, Any] = {
        "cell_type": cell_type,
        "id": cell_id,
        "metadata": NotebookNode(),
        "source": source,
    }
    if cell_type == "code":
        cell |= {"execution_count": None, "outputs": []}
    return NotebookNode(cell | parts)


def _ids(cells: list[dict[str, Any]]) -> Iterator[str]:
    wanted = [cell.get("id") for cell in cells]
    valid = [_valid_id(cell_id) for cell_id in wanted]
    fresh = fresh_ids(MADE_UP_ID, {cell_id for cell_id in valid if cell_id})
    seen: set[str] = set()
    for cell_id in valid:
        if cell_id is None or cell_id in seen:
            yield next(fresh)
        else:
            seen.add(cell_id)
            yield cell_id


def _valid_id(value: object) -> str | None:
    return value if isinstance(value, str) and _VALID_ID.fullmatch(value) else None


def _cell(raw: dict[str, Any], cell_id: str) -> NotebookNode:
    cell_type = raw.get("cell_type")
    if not isinstance(cell_type, str) or cell_type not in _CELL_TYPES:
        cell_type = "code" if "outputs" in raw else "raw"
    parts: dict[str, Any] = {"metadata": _metadata(raw.get("metadata"))}
    if cell_type == "code":
        executed = raw.get("execution_count")
        parts["execution_count"] = executed if type(executed) is int else None
        parts["outputs"] = list(_outputs(raw.get("outputs")))
    elif attachments := _attachments(raw.get("attachments")):
        parts["attachments"] = attachments
    return new_cell(cell_type, cell_id, _text(raw.get("source")), **parts)


def _metadata(value: object) -> NotebookNode:
    try:
        return _copy(_dict(value), DEEPEST)
    except _TooDeep:
        return NotebookNode()


def _attachments(value: object) -> NotebookNode:
    """Pictures in a Markdown cell: file name to MIME bundle of base64 text."""
    bundles = {_text(name): _texts(bundle) for name, bundle in _dict(value).items()}
    return NotebookNode({name: bundle for name, bundle in bundles.items() if bundle})


def _texts(value: object) -> NotebookNode:
    return NotebookNode(
        {_text(mime): _text(text) for mime, text in _dict(value).items() if isinstance(text, str)}
    )


def _outputs(value: object) -> Iterator[NotebookNode]:
    for output in _list(value):
        if not isinstance(output, dict):
            continue
        match output.get("output_type"):
            case "stream":
                name = "stderr" if output.get("name") == "stderr" else "stdout"
                yield _output("stream", name=name, text=_text(output.get("text")))
            case "error":
                yield _output(
                    "error",
                    ename=_text(output.get("ename")),
                    evalue=_text(output.get("evalue")),
                    traceback=[_text(line) for line in _list(output.get("traceback"))],
                )
            case "display_data":
                yield _output("display_data", data=_data(output), metadata=NotebookNode())
            case "execute_result":
                yield _output(
                    "execute_result",
                    data=_data(output),
                    metadata=NotebookNode(),
                    execution_count=None,
                )


def _output(output_type: str, **parts: Any) -> NotebookNode:
    return NotebookNode({"output_type": output_type, **parts})


def _data(output: dict[str, Any]) -> NotebookNode:
    data = NotebookNode()
    for mime, value in _dict(output.get("data")).items():
        if mime.endswith("json"):
            with suppress(_TooDeep):
                data[_text(mime)] = _copy(value, DEEPEST)
        else:
            data[_text(mime)] = _text(value)
    return data


class _TooDeep(Exception):
    """JSON nested so deeply that who walks it may run out of stack."""


def _copy(value: Any, levels: int) -> Any:
    """Return a copy of parsed JSON of at most so many levels, its text clean, dicts as nodes."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict | list) and not levels:
        raise _TooDeep
    if isinstance(value, dict):
        return NotebookNode({_text(key): _copy(item, levels - 1) for key, item in value.items()})
    if isinstance(value, list):
        return [_copy(item, levels - 1) for item in value]
    return value


def _text(value: object) -> str:
    """Join what may be a list of lines; line ends become newlines, lone surrogates "?"."""
    if not isinstance(value, str):
        value = "".join(line for line in _list(value) if isinstance(line, str))
    if not value.isascii():
        # UTF-8, and so every file that we write, cannot hold half of a surrogate pair.
        value = value.encode(errors="replace").decode()
    return value.replace("\r\n", "\n") if "\r" in value else value


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
