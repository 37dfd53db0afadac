"""Worker processes on this machine: jobs in, outcomes out, whatever happens to a worker.

Workers end with the process that made them, however it ends, and what they leave on disk lies in a
folder that the next grader sweeps away.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import socket
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from itertools import islice
from multiprocessing.util import Finalize
from pathlib import Path
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

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._size,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(os.getpid(),),
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


def lasting_worker() -> Pool:
    """Make a single worker that stays warm for as long as this process lives, and ends with it."""
    pool = Pool(1)
    # A process that multiprocessing started waits for its children before it ends, and runs only
    # these on its way there, nothing of atexit's.
    Finalize(None, pool.close, exitpriority=0)
    return pool


def _outcome(future: Future[Outcome]) -> Outcome:
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, BrokenProcessPool):
        return Outcome(failure=DIED_TWICE, is_ours=True)
    return Outcome(failure=f"the grader failed: {type(error).__name__}: {error}", is_ours=True)


@contextmanager
def signals_put_off() -> Iterator[None]:
    """Put off a wish to stop; threads and processes that are started meanwhile never get it."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


_starting: Final = threading.Lock()


@contextmanager
def _as_workers_start() -> Iterator[None]:
    """Set what processes inherit: the learners' environment, and no signal while they start."""
    with _starting, signals_put_off():
        before = {name: os.environ.get(name) for name in _ENVIRONMENT}
        os.environ.update(_ENVIRONMENT)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def _begin(parent: int) -> None:
    """Prepare a new worker."""
    _stay_on_one_core()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the grader, which ends us
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    die_with_parent()
    if os.getppid() != parent:
        os._exit(1)
    # All that this process and its children write lies there, and is swept if they are killed.
    tempfile.tempdir = str(Base.create().path)


@cache
def _stay_on_one_core() -> socket.socket | None:
    """Keep this worker and its children together, on a core that no other worker has taken.

    An examiner and a learner process take turns; waking each other on another core costs more than
    the calls themselves.

    Returns:
        What holds the core, of whatever grader the others are: the kernel gives a name to one
        socket only, and forgets it with the process.
    """
    cores = [] if _is_rationed() else list(os.sched_getaffinity(0))
    # Workers in other containers, which hold names of their own, are then seldom on the same core.
    random.shuffle(cores)
    hold = socket.socket(socket.AF_UNIX)
    for core in cores:
        try:
            hold.bind(f"\0autograder-core-{core}")
            os.sched_setaffinity(0, {core})
        except OSError:
            continue
        return hold
    return None


def _is_rationed() -> bool:
    """Say whether a container gives time on any core, rather than cores."""
    try:
        return not Path("/sys/fs/cgroup/cpu.max").read_text().startswith("max")
    except OSError:
        return False
