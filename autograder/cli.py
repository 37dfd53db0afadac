"""The ``autograder`` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

# Everything else is imported where it is needed, so that --help answers at once: nbgrader alone
# takes a second.
if TYPE_CHECKING:
    from nbgrader.coursedir import CourseDirectory
    from rich.console import Console
    from rich.progress import Progress

    from autograder.cluster import Cluster

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

NEEDS_A_LOOK = 1
USAGE_ERROR = 2
STOPPED = 130

Assignment = Annotated[str, typer.Argument(help="The assignment's name, a folder in source/.")]
Learners = Annotated[
    list[str] | None, typer.Option("--learner", help="Only this learner; may be repeated.")
]
CourseOption = Annotated[
    Path, typer.Option("--course", help="The course directory, which holds nbgrader_config.py.")
]


@app.callback()
def main() -> None:
    """Work on an nbgrader course. Run it in the course directory, or name that with --course.

    Exit status: 0 if all is done, notes or not; 1 if some could not be graded;
    2 if it could not start or go on; 130 if you stopped it.
    """


@app.command()
def release(assignment: Assignment, course: CourseOption = Path()) -> None:
    """Try an assignment out, refuse what would be graded wrongly, and generate its release."""
    from autograder.publish import publish

    with _errors_explained("What it had released by then may be half a release: run it again."):
        released = publish(_open(course), assignment)
    for note in released.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"Released {', '.join(released.notebooks)} to {released.folder}")


@app.command()
def grade(
    assignment: Assignment,
    course: CourseOption = Path(),
    learner: Learners = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Grade unchanged submissions too, say after an extension."),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help="Submissions at a time. By default one per core."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Mark on the Dask cluster of this scheduler, such as tcp://host:8786."),
    ] = None,
    trust_submissions: Annotated[
        bool,
        typer.Option("--trust-submissions", help="Run submissions without a sandbox."),
    ] = False,
    result: Annotated[
        Path | None,
        typer.Option(
            "--result",
            help="Write all results to this JSON file.",
            dir_okay=False,
            writable=True,
        ),
    ] = None,
) -> None:
    """Grade what the class handed in, as far as it has changed since it was graded."""
    from autograder.batch import grade_class
    from autograder.scores import class_scores
    from autograder.tables import print_scores, with_failures, write_result

    if result is not None and not _is_writable_folder(result.parent):
        _stop(f"--result {result}: {result.parent} is no folder that you may write to. Make one.")
    if jobs and scheduler is not None:
        _stop("With --scheduler the workers there say how many run at a time: leave out --jobs.")
    with (
        _errors_explained("What had been graded is kept; run it again for the rest."),
        _progress() as progress,
        _cluster(scheduler, progress) if scheduler is not None else nullcontext() as cluster,
    ):
        opened = _open(course)
        task = progress.add_task(f"Grading {assignment}", total=None)
        graded = grade_class(
            opened,
            assignment,
            learner or (),
            force=force,
            jobs=jobs,
            cluster=cluster,
            trust=trust_submissions,
            on_progress=lambda done, of: progress.update(task, completed=done, total=of),
        )
    with _errors_explained("All is graded. See: autograder scores"):
        scores = with_failures(class_scores(opened, assignment), graded)
    if trust_submissions:
        typer.echo("Submissions ran WITHOUT a sandbox, since you trust them.")
    print_scores(scores, _console())
    if unchanged := sum(each.status == "unchanged" for each in graded):
        typer.echo(f"\nNot graded again, because unchanged: {unchanged}. (--force does it anyway.)")
    if result is not None:
        write_result(scores, graded, result)
    if any(each.status == "failed" for each in graded):
        raise typer.Exit(NEEDS_A_LOOK)


@app.command()
def scores(assignment: Assignment, course: CourseOption = Path()) -> None:
    """Print the class's points per question, and the submissions that need a look."""
    from autograder.scores import class_scores
    from autograder.tables import print_scores

    with _errors_explained():
        print_scores(class_scores(_open(course), assignment), _console())


@app.command()
def feedback(
    assignment: Assignment,
    course: CourseOption = Path(),
    learner: Learners = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write anew what is already there.")
    ] = False,
) -> None:
    """Write each learner's feedback page. It shows nothing of the hidden tests."""
    from autograder.feedback import write_feedback

    kept = "The pages written by then are there; run it again for the rest."
    with _errors_explained(kept), _progress() as progress:
        task = progress.add_task(f"Writing feedback on {assignment}", total=None)
        without = write_feedback(
            _open(course),
            assignment,
            learner or None,
            force=force,
            on_progress=lambda done, of: progress.update(task, completed=done, total=of),
        )
    for each in without:
        typer.echo(f"No feedback for {each.learner}: {each.reason}", err=True)
    if without:
        raise typer.Exit(NEEDS_A_LOOK)


@app.command()
def report(assignment: Assignment, course: CourseOption = Path()) -> None:
    """Write the instructor's page on how an assignment went."""
    from autograder.report import write_report

    with _errors_explained():
        typer.echo(write_report(_open(course), assignment))


@app.command()
def doctor(
    course: CourseOption = Path(),
    hub: Annotated[
        Path | None,
        typer.Option("--hub", help="Check the hub of this jupyterhub_config.py instead, as root."),
    ] = None,
) -> None:
    """Check that this machine can grade, or that a hub keeps its secrets; say what to mend."""
    from autograder.doctor import examine_installation
    from autograder.hub_doctor import examine_hub

    findings = examine_installation(course) if hub is None else examine_hub(hub)
    console = _console()
    for finding in findings:
        console.print(finding.text)
    if not all(finding.fine for finding in findings):
        raise typer.Exit(USAGE_ERROR)


def _is_writable_folder(path: Path) -> bool:
    return path.is_dir() and os.access(path, os.W_OK | os.X_OK)


def _open(course: Path) -> CourseDirectory:
    from autograder.coursedir import open_course

    return open_course(course)


def _cluster(address: str, progress: Progress) -> Cluster:
    try:
        from autograder.cluster import Cluster
    except ModuleNotFoundError as missing:
        _stop(
            f"--scheduler needs the package {missing.name}. "
            "Install this project with its extra cluster, here and on the cluster's workers."
        )
    return Cluster(address, on_wait=progress.console.print)


def _console(*, stderr: bool = False) -> Console:
    """Return a console that prints [brackets] and :colons: as they are: names may hold them."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False)


@contextmanager
def _progress() -> Iterator[Progress]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from autograder.tables import TimeLeftColumn

    description = TextColumn("{task.description}", markup=False)
    columns = (description, BarColumn(), MofNCompleteColumn(), TimeLeftColumn())
    with Progress(*columns, console=_console(stderr=True)) as progress:
        yield progress


@contextmanager
def _errors_explained(if_stopped: str = "") -> Iterator[None]:
    """Turn what keeps a command from starting or going on into a message and an exit status.

    Args:
        if_stopped: what Ctrl-C leaves, and what to do then.
    """
    from sqlalchemy.exc import DBAPIError
    from traitlets import TraitError

    from autograder.batch import CannotGrade
    from autograder.coursedir import NoCourse
    from autograder.feedback import NothingGraded
    from autograder.gradebook import NoGradebook, UnknownAssignment
    from autograder.gradebook_cells import MarksWouldBeLost
    from autograder.prepare import BadSource
    from autograder.publish import ReleaseFailed, ReleaseRefused
    from autograder.sandbox.walls import Exposed, NoWalls
    from autograder.worker import CannotMark

    try:
        yield
    except (
        BadSource,
        CannotGrade,
        CannotMark,
        Exposed,
        MarksWouldBeLost,
        NoCourse,
        NoGradebook,
        NothingGraded,
        NoWalls,
        ReleaseFailed,
        ReleaseRefused,
        UnknownAssignment,
    ) as error:
        _stop(str(error))
    except TraitError as error:
        _stop(f"A setting is wrong: {error}\nMend it in nbgrader_config.py.")
    except DBAPIError as error:
        _stop(f"The gradebook failed: {error.orig}\nTo see what is wrong, run: autograder doctor")
    except KeyboardInterrupt:
        typer.echo(f"Stopped. {if_stopped}".rstrip(), err=True)
        sys.exit(STOPPED)


def _stop(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(USAGE_ERROR)
