"""A Dask cluster on this machine: a scheduler, and workers in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from distributed import Client

READY_S: Final = 60
QUIET: Final = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
}
"""What docs/scale.md advises, so that Dask does little beside its work."""


class DaskCluster:
    """A running scheduler and the workers that were added to it.

    Args:
        folder: for what its processes write.
        code: where the scheduler finds this project's packages instead.

    Attributes:
        scheduler: the scheduler's process.
    """

    def __init__(self, folder: Path, code: Path | None = None) -> None:
        self._folder = folder
        self._file = folder / "scheduler.json"
        self._started: list[subprocess.Popen[bytes]] = []
        options = ("--host=127.0.0.1", "--port=0", "--no-dashboard")
        self.scheduler = self._run("scheduler", *options, code=code)
        self._wait_for_address()

    @property
    def address(self) -> str:
        """Where the scheduler listens."""
        return str(json.loads(self._file.read_text())["address"])

    def add_worker(
        self, threads: int = 1, code: Path | None = None, home: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a worker with its nanny.

        Args:
            threads: how many submissions it marks at a time.
            code: where it finds this project's packages instead.
            home: its account's home instead.
        """
        options = ("--host=127.0.0.1", f"--nthreads={threads}", "--no-dashboard")
        return self._run(
            "worker", *options, f"--local-directory={self._folder}", code=code, home=home
        )

    def wait_for_workers(self, count: int) -> None:
        """Wait until so many have joined."""
        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=READY_S)

    def close(self) -> None:
        """End all its processes."""
        for process in reversed(self._started):
            process.terminate()
        for process in self._started:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _run(
        self, role: str, *options: str, code: Path | None = None, home: Path | None = None
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{role}"]
        command += [f"--scheduler-file={self._file}", *options]
        environment = os.environ | QUIET
        if code is not None:
            environment["PYTHONPATH"] = str(code)
        if home is not None:
            environment |= {"HOME": str(home), "MPLCONFIGDIR": str(self._folder)}
        with (self._folder / f"{role}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self._folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def _wait_for_address(self) -> None:
        end = time.monotonic() + READY_S
        # Dask makes the file before it fills it.
        while not (self._file.exists() and self._file.read_bytes().endswith(b"}")):
            if self.scheduler.poll() is not None or time.monotonic() > end:
                log = (self._folder / "scheduler.log").read_text()
                raise RuntimeError(f"The scheduler did not start:\n{log}")
            time.sleep(0.05)


@contextmanager
def dask_cluster(folder: Path, workers: int = 0, code: Path | None = None) -> Iterator[DaskCluster]:
    """Run a scheduler with so many workers."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = DaskCluster(folder, code)
    try:
        for _ in range(workers):
            cluster.add_worker()
        if workers:
            cluster.wait_for_workers(workers)
        yield cluster
    finally:
        cluster.close()
