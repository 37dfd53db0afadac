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
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from distributed import Client, Future, KilledWorker, as_completed, get_worker

from autograder.pool import Pool, lasting_worker, signals_put_off
from autograder.sandbox.policy import Wall
from autograder.sandbox.walls import Exposed, NoWalls, refuse_if_exposed, require_wall
from autograder.worker import CannotMark, Job, Outcome

CONNECT_SECONDS: Final = 10
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
        except (OSError, ValueError) as error:
            raise CannotMark(
                f"No Dask scheduler answers at {address}: {error}\nStart one with: dask scheduler"
            ) from None
        self._code = _code()

    @property
    def threads(self) -> int:
        """How many submissions the cluster can mark at the same time, as it is now."""
        threads: dict[str, int] = self._client.nthreads()
        return sum(threads.values())

    def outcomes(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with its outcome, as they come; jobs are drawn as workers get free.

        Raises:
            CannotMark: a worker is not fit for it, or the scheduler went away.
        """
        waiting = iter(jobs)
        flying: dict[Future[Outcome], Job] = {}
        done = as_completed(loop=self._client.loop)
        while True:
            try:
                threads = self.threads
            except OSError:
                raise self._lost() from None
            free = max(2 * threads, AT_LEAST) - len(flying)
            for job in islice(waiting, max(free, 0)):
                future = self._client.submit(_mark_there, job, self._code, pure=False)
                flying[future] = job
                done.add(future)
            if not flying:
                return
            future = next(done)
            yield flying.pop(future), self._outcome(future)

    def close(self) -> None:
        """Give up what is under way and leave the cluster as it was."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _lost(self) -> CannotMark:
        return CannotMark(
            f"The Dask scheduler at {self._address} went away. "
            "What had been graded is kept; run it again for the rest."
        )

    def _outcome(self, future: Future[Outcome]) -> Outcome:
        if future.cancelled():
            raise self._lost()
        error = future.exception()
        if error is None:
            outcome: Outcome = future.result()
            return outcome
        if isinstance(error, KilledWorker):
            return Outcome(failure=KILLED)
        raise error


def _mark_there(job: Job, code: str) -> Outcome:
    """Mark a submission in this thread's own process; runs on a worker of the cluster."""
    here = get_worker().address
    if _code() != code:
        raise CannotMark(
            f"The worker at {here} has another version of this package or of Python than the "
            "grader. Install the same there."
        )
    if job.wall is not Wall.NONE and (why := _why_unfit(job.wall)):
        raise CannotMark(f"The worker at {here} cannot mark: {why}")
    ((_, outcome),) = _own_pool().outcomes([job])
    return outcome


@functools.cache
def _code() -> str:
    """Return what is the same only if the same code runs."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256(repr(sys.version_info[:2]).encode())
    for file in sorted(file for name in PACKAGES for file in (root / name).rglob("*.py")):
        digest.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


@functools.cache
def _why_unfit(wall: Wall) -> str:
    try:
        found = require_wall()
        refuse_if_exposed([Path.home()], found)
    except (NoWalls, Exposed) as reason:
        return str(reason)
    if found is not wall:
        return f"the grader's wall is {wall}, and this machine's {found}"
    return ""


_own: Any = threading.local()


def _own_pool() -> Pool:
    if not hasattr(_own, "pool"):
        # A nanny's worker is a daemon, which Python keeps from having children; ours end with it.
        multiprocessing.current_process().daemon = False
        _own.pool = lasting_worker()
    pool: Pool = _own.pool
    return pool
