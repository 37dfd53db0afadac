"""Workers of a Dask cluster: jobs in, outcomes out, as with a pool on this machine.

A job and its outcome travel as they are; gradebook and folders stay with the grader. On each of the
cluster's workers, every thread keeps a process of its own for marking: learners' processes are
forked from it, and a crash or a shortage of memory there costs the one submission that caused it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import multiprocessing
import pickle
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, Self

from distributed import Client, Future, KilledWorker, Scheduler, get_worker, rpc
from distributed.client import ClosedClientError

from autograder.exam import code_digests
from autograder.pool import Pool, lasting_worker, signals_put_off
from autograder.sandbox.policy import Wall
from autograder.sandbox.walls import Exposed, NoWalls, refuse_if_exposed, require_wall
from autograder.worker import CannotMark, Job, Outcome

CONNECT_SECONDS: Final = 5
LOOK_SECONDS: Final = 1
"""How often to ask how many workers there are."""
RETRIES: Final = 2
AT_LEAST: Final = 4
"""Tasks that are handed out even where no worker is yet, so that a cluster that grows does so."""
TASK_SECONDS: Final = 0.3
"""How long a task should take. Dask spends some 20 ms of CPU on each, however little it does; but
the longer they are, the longer one worker is still busy when the others have ended."""
JOBS_AT_MOST: Final = 8
"""In a task."""

LIBRARIES: Final = ("ipython", "matplotlib", "msgspec", "nbformat", "numpy")
"""What has a part in marks and graded notebooks beside an exam's own packages."""

KILLED: Final = (
    "each of the cluster's workers that took this submission died; was memory short there?"
)


class Cluster:
    """The workers of a Dask cluster, however many there are from one moment to the next.

    Args:
        address: the scheduler's, such as tcp://host:8786. Dask's own configuration says how to
            reach one that wants TLS.
        on_wait: is told when grading has to wait for a worker to join.

    Raises:
        CannotMark: there is no scheduler.
    """

    def __init__(self, address: str, on_wait: Callable[[str], None] = lambda message: None) -> None:
        self._address = address
        self._on_wait = on_wait
        self._threads = 0
        self._waits = False
        self._look = 0.0
        # What it logs when the scheduler goes away, with tracebacks, we say in a sentence.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        try:
            # First, because a client that finds no scheduler takes long to give up.
            role = asyncio.run(asyncio.wait_for(_role(address), CONNECT_SECONDS))
            if role != Scheduler.__name__:
                raise OSError(f"what answers is a {role.lower()}")
            # The client's threads must leave it to the main thread to be stopped.
            with signals_put_off():
                self._client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            why = error if str(error) else f"nothing, for {CONNECT_SECONDS} seconds"
            raise CannotMark(
                f"No Dask scheduler answers at {address}: {why}\n"
                "Its address, such as tcp://10.0.0.5:8786, is in what dask scheduler prints."
            ) from None

    def outcomes(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with its outcome, as they come; jobs are drawn as workers get free.

        Raises:
            CannotMark: a worker is not fit for it, or the scheduler went away.
        """
        self._refuse_who_lacks_us()
        suspects: list[Job] = []
        for job, outcome in self._outcomes(jobs):
            if outcome is None or outcome.is_ours:
                suspects.append(job)
            else:
                yield job, outcome
        # Of the jobs that a dying worker had, only one is to blame; alone, it shows which.
        for suspect in suspects:
            for job, outcome in self._outcomes([suspect]):
                yield job, outcome or Outcome(failure=KILLED, is_ours=True)

    def _outcomes(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome | None]]:
        """Yield each job with its outcome, or None where its workers died."""
        waiting = iter(jobs)
        flying: dict[Future[Any], tuple[Job, ...]] = {}
        done: SimpleQueue[Future[Any]] = SimpleQueue()
        size = 1
        while True:
            while len(flying) < self._tasks_wanted() and (task := tuple(islice(waiting, size))):
                flying[self._submit(task, done)] = task
            if not flying:
                return
            try:
                future = done.get(timeout=LOOK_SECONDS)
            except Empty:
                continue
            task = flying.pop(future)
            with self._while_it_lasts():
                outcomes = _outcomes_of(future, task)
            size = _better_size(outcomes)
            for job in task:
                yield job, outcomes.get(job.learner)

    def _submit(self, task: tuple[Job, ...], done: SimpleQueue[Future[Any]]) -> Future[Any]:
        needs = _needs(task[0].exam_digest, task[0].exam)
        with self._while_it_lasts():
            future = self._client.submit(_mark_there, task, *needs, pure=False, retries=RETRIES)
            future.add_done_callback(done.put)
        return future

    def _tasks_wanted(self) -> int:
        """Return how many tasks should be handed out, for the workers of about this moment.

        Raises:
            CannotMark: the scheduler went away.
        """
        if time.monotonic() >= self._look:
            with self._while_it_lasts():
                self._threads = sum(self._client.nthreads().values())
            self._look = time.monotonic() + LOOK_SECONDS
            if not self._threads and not self._waits:
                self._on_wait(
                    f"There is no worker at {self._address}. Grading goes on when one has joined."
                )
            self._waits = not self._threads
        return max(2 * self._threads, AT_LEAST)

    def close(self) -> None:
        """Give up what is under way and leave the cluster as it was."""
        with suppress(OSError):  # there may be no cluster any more
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse_who_lacks_us(self) -> None:
        # Such a worker could not even read a job: it would end itself, and the grader wait.
        look = f"import {__name__}"
        with self._while_it_lasts():
            answers = self._client.run(exec, look, on_error="return")
            lacking = {f"worker at {where}": error for where, error in answers.items() if error}
            try:
                self._client.run_on_scheduler(exec, look)
            except ImportError as error:
                lacking["scheduler"] = error
        for who, why in lacking.items():
            raise CannotMark(
                f"The {who} cannot take part: {why}\n"
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
                f"The Dask scheduler at {self._address} went away ({type(error).__name__}), and "
                "its workers with it.\nWhat had been graded is kept. Start scheduler and workers, "
                "and run it again for the rest."
            ) from None


def _outcomes_of(future: Future[Any], task: Collection[Job]) -> Mapping[str, Outcome]:
    """Return what became of a task's jobs, by learner; nothing if its workers died."""
    try:
        outcomes: dict[str, Outcome] = future.result()
    except KilledWorker:
        return {}
    except WorkerFailed as reason:
        return {job.learner: Outcome(failure=str(reason), is_ours=True) for job in task}
    except (CannotMark, OSError, CancelledError):
        raise
    except Exception as error:
        raise CannotMark(f"The cluster failed: {type(error).__name__}: {error}") from None
    return outcomes


def _better_size(outcomes: Mapping[str, Outcome]) -> int:
    """Return how many jobs would make a task of the wanted length, if all were like these."""
    seconds = sum(outcome.seconds for outcome in outcomes.values())
    fit = TASK_SECONDS * len(outcomes) / seconds if seconds else 1
    return min(max(int(fit), 1), JOBS_AT_MOST)


class WorkerFailed(Exception):
    """A worker that works otherwise failed with a submission; the message says how."""


@functools.lru_cache(maxsize=1)
def _needs(digest: str, packed: bytes) -> tuple[Collection[str], Mapping[str, str]]:
    """Return an exam's packages, and the versions that a worker has to have.

    Args:
        digest: the exam's, which differs when code has changed.
        packed: the exam.
    """
    packages = pickle.loads(packed).packages  # noqa: S301 (made by this process)
    return packages, _versions(packages)


def _mark_there(
    task: Collection[Job], packages: Collection[str], versions: Mapping[str, str]
) -> dict[str, Outcome]:
    """Mark submissions in this thread's own process; runs on a worker of the cluster."""
    pool = _fit_pool(next(iter(task)), packages, versions)
    outcomes = _mark_in(pool, task)
    if len(outcomes) == 1:
        (outcome,) = outcomes.values()
        if outcome.is_ours:
            raise WorkerFailed(outcome.failure)  # Dask tries it again, elsewhere if it can
    return outcomes


def _fit_pool(job: Job, packages: Collection[str], versions: Mapping[str, str]) -> Pool:
    """Return this thread's own process, which marks such a job as the grader's machine would.

    Raises:
        CannotMark: it cannot.
    """
    if _own.pool and job.exam_digest in _own.fit_for:
        return _own.pool
    here = get_worker().address
    own = _versions(packages)
    if others := [name for name in versions if own.get(name) != versions[name]]:
        told = (f"{name} {own.get(name, 'missing')} instead of {versions[name]}" for name in others)
        raise CannotMark(
            f"The worker at {here} has another version than the grader: {', '.join(told)}. "
            "Install the same there."
        )
    if any(_own.versions.get(name, now) != now for name, now in own.items()):
        _own.close()  # it still has what was installed before
    _own.versions |= own
    pool = _own.pool = _own.pool or _make_pool()
    # Without anybody's submission, so that none can be the cause.
    probe = replace(job, notebooks={}, files={})
    if why := _why_unfit(job.wall) or _mark_in(pool, [probe])[job.learner].failure:
        _own.close()
        raise CannotMark(f"The worker at {here} cannot mark: {why}")
    _own.fit_for.add(job.exam_digest)
    return pool


def _mark_in(pool: Pool, task: Iterable[Job]) -> dict[str, Outcome]:
    return {job.learner: outcome for job, outcome in pool.outcomes(task)}


def _versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of what has a part in marks, of packages' code as it lies there now."""
    python = "{}.{}".format(*sys.version_info)
    libraries = {name: version(name) for name in LIBRARIES}
    code = {name: digest[:12] for name, digest in code_digests(packages).items()}
    return {"python": python, **libraries, **code}


async def _role(address: str) -> str:
    """Ask what kind of Dask's processes listens there."""
    async with rpc(address) as there:
        identity: dict[str, str] = await there.identity()
    return identity["type"]


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


class _Own(threading.local):
    """What a thread of a worker keeps.

    Attributes:
        pool: the process for marking, once there is one.
        versions: of what it has loaded.
        fit_for: the digests of the exams that it is known to be fit for.
    """

    def __init__(self) -> None:
        self.pool: Pool | None = None
        self.versions: dict[str, str] = {}
        self.fit_for: set[str] = set()

    def close(self) -> None:
        """End the process, and forget what is known of it."""
        if self.pool:
            self.pool.close()
        self.pool = None
        self.versions.clear()
        self.fit_for.clear()


_own: Final = _Own()


def _make_pool() -> Pool:
    # A nanny's worker is a daemon, which Python keeps from having children; ours end with it.
    multiprocessing.current_process().daemon = False
    return lasting_worker()
