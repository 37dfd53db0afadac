"""What grading leaves in a course: the gradebook's rows and the autograded folder, comparable."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook

Rows = dict[str, list[tuple[Any, ...]]]


def gradebook_rows(course: Path, url: str = "") -> Rows:
    """Return the rows that concern submissions, by table; names stand for the database's ids.

    Args:
        course: the course directory.
        url: where its gradebook is, if not there.
    """
    rows: Rows = {"submission": [], "notebook": [], "grade": [], "comment": []}
    with Gradebook(url or f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        for assignment in gradebook.assignments:
            for submission in assignment.submissions:
                of = (assignment.name, submission.student_id)
                rows["submission"].append((*of, submission.timestamp, submission.extension))
                for notebook in submission.notebooks:
                    here = (*of, notebook.name)
                    penalty = notebook.late_submission_penalty
                    rows["notebook"].append((*here, penalty, notebook.flagged))
                    rows["grade"] += [
                        (
                            *here,
                            grade.name,
                            grade.auto_score,
                            grade.manual_score,
                            grade.extra_credit,
                            grade.needs_manual_grade,
                        )
                        for grade in notebook.grades
                    ]
                    rows["comment"] += [
                        (*here, comment.name, comment.auto_comment, comment.manual_comment)
                        for comment in notebook.comments
                    ]
    return {table: sorted(found, key=repr) for table, found in rows.items()}


def autograded_files(course: Path) -> dict[str, tuple[int, Any]]:
    """Return mode and content of each autograded file.

    Of notebooks without their cells' ids and the grader's fingerprint, which depends on the
    version of its code.
    """
    folder = course / "autograded"
    return {
        str(path.relative_to(folder)): (stat.S_IMODE(path.stat().st_mode), _content(path))
        for path in folder.rglob("*")
        if path.is_file()
    }


def _content(path: Path) -> Any:
    if path.suffix != ".ipynb":
        return path.read_bytes()
    notebook = json.loads(path.read_bytes())
    notebook["metadata"].get("autograder", {}).pop("fingerprint", None)
    for cell in notebook["cells"]:
        del cell["id"]
    return notebook
