"""The ``autograder`` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

USAGE_ERROR = 2

CourseOption = Annotated[
    Path, typer.Option("--course", help="The course directory, which holds nbgrader_config.py.")
]


@app.callback()
def main() -> None:
    """Work on an nbgrader course. Run it in the course directory, or name that with --course."""


@app.command()
def scores(
    assignment: Annotated[str, typer.Argument(help="The assignment's name, a folder in source/.")],
    course: CourseOption = Path(),
) -> None:
    """Print the class's points per question, and the submissions that need a look."""
    # Imported here so that --help answers at once: nbgrader takes a second to import.
    from rich.console import Console

    from autograder.coursedir import NoCourse, open_course
    from autograder.scores import UnknownAssignment, class_scores
    from autograder.tables import print_scores

    try:
        result = class_scores(open_course(course), assignment)
    except NoCourse:
        _stop(f"{course.resolve()} has no nbgrader_config.py. Name the course with --course.")
    except UnknownAssignment:
        _stop(
            f"The gradebook knows no assignment {assignment!r}. "
            f"Run: nbgrader generate_assignment {assignment}"
        )
    print_scores(result, Console())


def _stop(message: str) -> None:
    typer.echo(message, err=True)
    raise typer.Exit(USAGE_ERROR)
