"""A process with a warm shell that forks itself for each test, as the warm parent does."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import traceback
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from autograder.learner.process import serve
from autograder.shell import Shell, make_shell

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class WarmShell:
    """Made once for many tests; pytest's own process stays free of IPython."""

    def __init__(self) -> None:
        self._control, remote = socket.socketpair()
        if os.fork() == 0:
            self._control.close()
            _fork_on_request(remote)
        remote.close()

    def close(self) -> None:
        self._control.close()

    def run(
        self,
        function: Callable[Concatenate[Shell, Arguments], Answer],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Answer:
        """What a function returns when it is called with the shell in a process of its own."""
        with self._request((function, args, kwargs)) as connection:
            data = b"".join(iter(lambda: connection.recv(2**16), b""))
        assert data, "the process died"
        answer: Answer = pickle.loads(data)
        return answer

    def learner(self) -> socket.socket:
        """The examiner's end of the socket of a new learner process."""
        return self._request(None)

    def _request(self, task: object) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [pickle.dumps(task)], [theirs.fileno()])
        return ours


def _fork_on_request(control: socket.socket) -> None:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        shell = make_shell()
        while True:
            message, descriptors, _, _ = socket.recv_fds(control, 2**16, 1)
            if not message:
                break
            with socket.socket(fileno=descriptors[0]) as connection:
                if os.fork() == 0:
                    control.close()
                    _do(shell, pickle.loads(message), connection)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _do(shell: Shell, task: Any, connection: socket.socket) -> None:
    if task is None:
        serve(connection, shell)
    function, args, kwargs = task
    connection.sendall(pickle.dumps(function(shell, *args, **kwargs)))
    os._exit(0)
