"""A PostgreSQL server of Debian's for the tests, in a folder of their own."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

DEBIANS: Final = Path("/usr/lib/postgresql")
ACCOUNT: Final = "postgres"


@contextmanager
def postgres(database: str = "gradebook") -> Iterator[str]:
    """Run a server with an empty database and yield its URL in SQLAlchemy's terms.

    Raises:
        RuntimeError: PostgreSQL is not installed, or it did not start.
    """
    programs = max(DEBIANS.glob("*/bin"), default=None)
    if programs is None:
        raise RuntimeError("PostgreSQL is not installed. Run: apt-get install postgresql")
    # Its socket's path may have a hundred characters only, which pytest's folders have.
    with TemporaryDirectory(prefix="pg-") as folder:
        data = Path(folder, "data")
        root = os.getuid() == 0
        account = pwd.getpwnam(ACCOUNT) if root else pwd.getpwuid(os.getuid())
        if root:  # under which the server refuses to run
            os.chown(folder, account.pw_uid, account.pw_gid)

        def command(program: str, *arguments: str) -> subprocess.Popen[str]:
            return subprocess.Popen(
                [programs / program, *arguments],
                cwd=folder,
                user=account.pw_uid if root else None,
                group=account.pw_gid if root else None,
                extra_groups=[] if root else None,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )

        def do(program: str, *arguments: str) -> None:
            process = command(program, *arguments)
            said, _ = process.communicate()
            if process.returncode != 0:
                raise RuntimeError(f"{program}:\n{said}")

        do("initdb", f"--pgdata={data}", "--auth=trust", "--no-sync", f"--username={ACCOUNT}")
        # No network: only who may open the folder's socket reaches it.
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        do("pg_ctl", "start", "-w", f"--pgdata={data}", f"--log={folder}/log", "-o", options)
        try:
            do("createdb", f"--host={folder}", f"--username={ACCOUNT}", database)
            yield f"postgresql+psycopg://{ACCOUNT}@/{database}?host={folder}"
        finally:
            do("pg_ctl", "stop", f"--pgdata={data}", "--mode=immediate")
