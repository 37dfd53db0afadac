"""Workers of a Dask cluster: jobs in, outcomes out, as with a pool on this machine.

A job and its outcome travel as they are; gradebook and folders stay with the grader. On each of the
cluster's workers, every thread keeps a process of its own for marking: learners' processes are
forked from it, and a crash or a shortage of memory there costs the one submission that caused it.
"""

from __future__ import annotations

import functools
import hashlib
import multiprocessing
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self

from distributed import Client, Future, KilledWorker, as_completed, get_worker
from distributed.client import ClosedClientError

from autograder.pool import Pool, lasting_worker, signals_put_off
from autograder.sandbox.policy import Wall
from autograder.sandbox.walls import Exposed, NoWalls, refuse_if_exposed, require_wall
from autograder.worker import CannotMark, Job, Outcome

CONNECT_SECONDS: Final = 5
RETRIES: Final = 2
AT_LEAST: Final = 4
"""Jobs that are handed out even where no worker is yet, so that a cluster that grows does so."""

PACKAGES: Final = ("autograder", "course")
"""What of this project runs on workers."""

KILLED: Final = (
    "each of the cluster's workers that took this submission died; was memory short there?"
)


class Cluster:
    """The workers of a Dask cluster, however many there are from one moment to the next.

    Args:
        address: the scheduler's, such as tcp://host:8786. Dask's own configuration says how to
            reach one that wants TLS.

    Raises:
        CannotMark: there is no scheduler.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        try:
            # The client's threads must leave it to the main thread to be stopped.
            with signals_put_off():
                self._client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise CannotMark(
                f"No Dask scheduler answers at {address}: {error}\nStart one with: dask scheduler"
            ) from None
        self._code = _code()

    @property
    def threads(self) -> int:
        """How many submissions the cluster can mark at the same time, as it is now.

        Raises:
            CannotMark: the scheduler went away.
        """
        with self._while_it_lasts():
            threads: dict[str, int] = self._client.nthreads()
        return sum(threads.values())

    def outcomes(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with its outcome, as they come; jobs are drawn as workers get free.

        Raises:
            CannotMark: a worker is not fit for it, or the scheduler went away.
        """
        self._refuse_workers_without_us()
        suspects: list[Job] = []
        for job, outcome in self._outcomes(jobs):
            if outcome is None:
                suspects.append(job)
            else:
                yield job, outcome
        # Of the jobs that a dying worker had, only one is to blame; alone, it shows which.
        for suspect in suspects:
            for job, outcome in self._outcomes([suspect]):
                yield job, outcome or Outcome(failure=KILLED)

    def _outcomes(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome | None]]:
        """Yield each job with its outcome, or None where its workers died."""
        waiting = iter(jobs)
        flying: dict[Future[Outcome], Job] = {}
        done = as_completed(loop=self._client.loop)
        while True:
            free = max(2 * self.threads, AT_LEAST) - len(flying)
            for job in islice(waiting, max(free, 0)):
                with self._while_it_lasts():
                    future = self._client.submit(
                        _mark_there, job, self._code, pure=False, retries=RETRIES
                    )
                    done.add(future)
                flying[future] = job
            if not flying:
                return
            future = next(done)
            with self._while_it_lasts():
                outcome = _outcome(future)
            yield flying.pop(future), outcome

    def close(self) -> None:
        """Give up what is under way and leave the cluster as it was."""
        with suppress(OSError):  # there may be no cluster any more
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse_workers_without_us(self) -> None:
        # Such a worker could not even read a job: it would end itself, and the grader wait.
        with self._while_it_lasts():
            answers = self._client.run(exec, f"import {__name__}", on_error="return")
        for worker, error in answers.items():
            if error is not None:
                raise CannotMark(
                    f"The worker at {worker} cannot mark: {error}\n"
                    "Install this project there, with its extra cluster."
                )

    @contextmanager
    def _while_it_lasts(self) -> Iterator[None]:
        """Turn what a client meets whose scheduler is gone into an error that says so."""
        try:
            yield
        # Once it has closed itself, the client fails with the last two.
        except (OSError, CancelledError, ClosedClientError, AttributeError) as error:
            raise CannotMark(
                f"The Dask scheduler at {self._address} went away ({type(error).__name__}). "
                "What had been graded is kept; run it again for the rest."
            ) from None


def _outcome(future: Future[Outcome]) -> Outcome | None:
    try:
        outcome: Outcome = future.result()
    except KilledWorker:
        return None
    except WorkerFailed as reason:
        return Outcome(failure=str(reason))
    except (CannotMark, OSError, CancelledError):
        raise
    except Exception as error:
        raise CannotMark(f"The cluster failed: {type(error).__name__}: {error}") from None
    return outcome


class WorkerFailed(Exception):
    """A worker that works otherwise failed with a submission; the message says how."""


def _mark_there(job: Job, code: str) -> Outcome:
    """Mark a submission in this thread's own process; runs on a worker of the cluster."""
    here = get_worker().address
    if _code() != code:
        raise CannotMark(
            f"The worker at {here} has another version of this package or of Python than the "
            "grader. Install the same there."
        )
    if not hasattr(_own, "pool"):
        # Without anybody's submission, so that none can be the cause.
        probe = replace(job, notebooks={}, files={})
        pool = _make_pool()
        if why := _why_unfit(job.wall) or _mark_in(pool, probe).failure:
            pool.close()
            raise CannotMark(f"The worker at {here} cannot mark: {why}")
        _own.pool = pool
    outcome = _mark_in(_own.pool, job)
    if outcome.is_ours:
        raise WorkerFailed(outcome.failure)  # Dask tries it again, elsewhere if it can
    return outcome


def _mark_in(pool: Pool, job: Job) -> Outcome:
    ((_, outcome),) = pool.outcomes([job])
    return outcome


@functools.cache
def _code() -> str:
    """Return what is the same only if the same code runs."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256(repr(sys.version_info[:2]).encode())
    for file in sorted(file for name in PACKAGES for file in (root / name).rglob("*.py")):
        digest.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _why_unfit(wall: Wall) -> str:
    if wall is Wall.NONE:
        return ""
    try:
        found = require_wall()
        refuse_if_exposed([Path.home()], found)
    except (NoWalls, Exposed) as reason:
        return str(reason)
    if found is not wall:
        return f"the grader's wall is {wall}, and this machine's {found}"
    return ""


_own: Final[Any] = threading.local()
"""Of the thread: `pool`, once it is known to work."""


def _make_pool() -> Pool:
    # A nanny's worker is a daemon, which Python keeps from having children; ours end with it.
    multiprocessing.current_process().daemon = False
    return lasting_worker()
