"""Worker processes on this machine: jobs in, outcomes out, whatever happens to a worker.

Workers end with the process that made them, however it ends, and what they leave on disk lies in a
folder that the next grader sweeps away.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing.sharedctypes import Synchronized
from types import TracebackType
from typing import Final, Self

from autograder.sandbox.environment import VARIABLES
from autograder.sandbox.lock import die_with_parent
from autograder.sandbox.scratch import Base, sweep
from autograder.worker import Job, Outcome, mark

DIED_TWICE: Final = "the grader's worker died twice on this submission; was memory short?"

STOP_SIGNALS: Final = frozenset({signal.SIGINT, signal.SIGTERM})

# HOME stays, for what is the grader's own; a learner's process never sees it.
_ENVIRONMENT: Final = {name: value for name, value in VARIABLES.items() if name != "HOME"}


class Pool:
    """A number of workers, for use in one thread.

    Args:
        size: how many.
    """

    def __init__(self, size: int) -> None:
        sweep()
        self._size = size
        self._context = multiprocessing.get_context("spawn")
        self._started = self._context.Value("i", os.getpid())
        self._executor = self._make()

    def outcomes(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with its outcome, as they come; jobs are drawn as workers get free."""
        waiting = iter(jobs)
        flying: dict[Future[Outcome], Job] = {}
        while True:
            for job in islice(waiting, 2 * self._size - len(flying)):
                flying[self._submit(job)] = job
            if not flying:
                return
            done, _ = wait(flying, return_when=FIRST_COMPLETED)
            ended = [(flying.pop(future), future) for future in done]
            if any(isinstance(future.exception(), BrokenProcessPool) for _, future in ended):
                # All that was under way is lost, and which job is to blame shows one by one.
                wait(flying)
                ended += [(job, future) for future, job in flying.items()]
                flying.clear()
            for job, future in ended:
                if isinstance(future.exception(), BrokenProcessPool):
                    future = self._alone(job)
                yield job, _outcome(future)

    def close(self) -> None:
        """End the workers, now, and remove what they leave."""
        # From Python 3.14 on there is kill_workers() for this.
        for process in (self._executor._processes or {}).values():
            process.kill()
        self._executor.shutdown(cancel_futures=True)
        sweep()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _make(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._size,
            mp_context=self._context,
            initializer=_begin,
            initargs=(os.getpid(), self._started),
        )

    def _submit(self, job: Job) -> Future[Outcome]:
        with _as_workers_start():
            try:
                return self._executor.submit(mark, job)
            except BrokenProcessPool:
                self._executor.shutdown()
                self._executor = self._make()
                return self._executor.submit(mark, job)

    def _alone(self, job: Job) -> Future[Outcome]:
        future = self._submit(job)
        wait([future])
        return future


def _outcome(future: Future[Outcome]) -> Outcome:
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, BrokenProcessPool):
        return Outcome(failure=DIED_TWICE)
    return Outcome(failure=f"the grader failed: {type(error).__name__}: {error}")


@contextmanager
def _as_workers_start() -> Iterator[None]:
    """Set what processes inherit: the learners' environment, and no signal while they start."""
    before = {name: os.environ.get(name) for name in _ENVIRONMENT}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    os.environ.update(_ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _begin(parent: int, started: Synchronized[int]) -> None:
    """Prepare a new worker."""
    _stay_on_one_core(started)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the grader, which ends us
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    die_with_parent()
    if os.getppid() != parent:
        os._exit(1)
    # All that this process and its children write lies there, and is swept if they are killed.
    tempfile.tempdir = str(Base.create().path)


def _stay_on_one_core(started: Synchronized[int]) -> None:
    """Keep this worker and its children together, each worker on the next core.

    An examiner and a learner process take turns; waking each other on another core costs more than
    the calls themselves.
    """
    with started.get_lock():
        number = started.value
        started.value += 1
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)]})
