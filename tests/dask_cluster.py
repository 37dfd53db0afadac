"""A Dask cluster on this machine: a scheduler, and workers in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from distributed import Client

READY_S: Final = 60


class DaskCluster:
    """A running scheduler and the workers that were added to it.

    Args:
        folder: for what its processes write.

    Attributes:
        scheduler: the scheduler's process.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "scheduler.json"
        self._started: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._run("scheduler", "--host=127.0.0.1", "--port=0", "--no-dashboard")
        self._wait(self._file.exists, self.scheduler)

    @property
    def address(self) -> str:
        """Where the scheduler listens."""
        return str(json.loads(self._file.read_text())["address"])

    def add_worker(self, code: Path | None = None) -> subprocess.Popen[bytes]:
        """Start a worker of one thread, with its nanny, and wait until it has joined.

        Args:
            code: where it finds this project's packages instead.
        """
        with Client(self.address, set_as_default=False) as client:
            before = len(client.nthreads())
            worker = self._run(
                "worker",
                "--host=127.0.0.1",
                "--nthreads=1",
                "--no-dashboard",
                f"--local-directory={self._folder}",
                code=code,
            )
            self._wait(lambda: len(client.nthreads()) > before, worker)
        return worker

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

    def _run(self, role: str, *options: str, code: Path | None = None) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{role}"]
        command += [f"--scheduler-file={self._file}", *options]
        environment = dict(os.environ)
        if code is not None:
            environment["PYTHONPATH"] = str(code)
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

    def _wait(self, is_ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + READY_S
        while not is_ready():
            if process.poll() is not None or time.monotonic() > end:
                logs = "\n".join(log.read_text() for log in self._folder.glob("*.log"))
                raise RuntimeError(f"The Dask cluster did not start:\n{logs}")
            time.sleep(0.05)


@contextmanager
def dask_cluster(folder: Path, workers: int = 0) -> Iterator[DaskCluster]:
    """Run a scheduler with so many workers."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = DaskCluster(folder)
    try:
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.close()
