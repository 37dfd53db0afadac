"""A hub for one small course on one machine; what differs from site to site is in site.toml.

Learners and instructors are accounts of the machine. Each has a server of their own. The course's
formgrader runs once, as a service, under the account that holds the course directory; instructors
reach it, learners do not, and nobody else's account can read a hidden test.
"""

import asyncio
import os
import pwd
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

from jupyterhub.spawner import LocalProcessSpawner

c = get_config()  # noqa: F821 (traitlets provides it)

HUB = Path(__file__).parent
SITE = tomllib.loads((HUB / "site.toml").read_text())
COURSE, GRADER, PREFIX = SITE["course"], SITE["grader"], Path(SITE["prefix"])
LEARNERS, INSTRUCTORS = set(SITE["learners"]), set(SITE["instructors"])
# nbgrader reads who is who in a course from groups of these names.
TEACH, LEARN = f"formgrade-{COURSE}", f"nbgrader-{COURSE}"
# The hub's own ports follow the public one, so that two hubs can run on one machine.
PORT = urlsplit(SITE["address"]).port or 80
PROXY_API, HUB_PORT, SERVICE_PORT = PORT + 1, PORT + 81, PORT + 99


def config_path(*folders):
    """Say where a server finds its settings; earlier folders overrule later ones."""
    return os.pathsep.join(str(HUB / folder) for folder in folders)


c.JupyterHub.bind_url = SITE["address"]
c.JupyterHub.hub_port = HUB_PORT
c.JupyterHub.db_url = f"sqlite:///{SITE['state']}/jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = f"{SITE['state']}/cookie_secret"
c.ConfigurableHTTPProxy.command = [str(PREFIX / "proxy/node_modules/.bin/configurable-http-proxy")]
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{PROXY_API}"
c.ConfigurableHTTPProxy.pid_file = f"{SITE['state']}/proxy.pid"

# Who may come in: with their own password, which the machine checks. The grader's account is in the
# list because its service asks the hub about itself; it needs no password.
c.JupyterHub.authenticator_class = "pam"
c.Authenticator.allowed_users = LEARNERS | INSTRUCTORS | {GRADER}
c.PAMAuthenticator.open_sessions = False
c.JupyterHub.load_groups = {
    TEACH: {"users": sorted(INSTRUCTORS | {GRADER})},
    LEARN: {"users": sorted(LEARNERS)},
}


class PromptSpawner(LocalProcessSpawner):
    """Starts a server and waits until it listens.

    The hub by itself would look less and less often, and keep a learner waiting for seconds.
    """

    async def start(self):
        """Return the server's address when it listens, or its process has ended."""
        ip, port = await super().start()
        while await self.poll() is None:
            try:
                _, writer = await asyncio.open_connection(ip, port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                break
        return ip, port


# A server each. Only systemd can limit a server as a whole; elsewhere each of its processes is
# limited, so that a kernel that asks for too much meets MemoryError.
if Path("/run/systemd/system").is_dir():
    c.JupyterHub.spawner_class = "systemd"
    c.Spawner.mem_limit = f"{SITE['memory_mib']}M"
    c.SystemdSpawner.default_shell = "/bin/bash"
    c.Spawner.cmd = [str(PREFIX / "bin/jupyterhub-singleuser")]
else:
    c.JupyterHub.spawner_class = PromptSpawner
    limit = f"--data={SITE['memory_mib'] * 2**20}"
    c.Spawner.cmd = ["prlimit", limit, "--core=0", str(PREFIX / "bin/jupyterhub-singleuser")]
c.Spawner.default_url = "/lab/tree/Welcome.md"


def prepare(spawner):
    """Give an instructor's server its extensions, and whoever comes the first time a welcome."""
    name = spawner.user.name
    teaches = name in INSTRUCTORS
    folders = ["instructors", "everyone"] if teaches else ["everyone"]
    spawner.environment["JUPYTER_CONFIG_PATH"] = config_path(*folders)
    welcome = HUB / ("Welcome-instructor.md" if teaches else "Welcome.md")
    account = pwd.getpwnam(name)
    # As the user: root would follow a link that stands in its way.
    subprocess.run(
        ["/bin/cp", "--no-clobber", welcome, "Welcome.md"],
        cwd=account.pw_dir,
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=[],
        check=True,
    )


c.Spawner.pre_spawn_hook = prepare

c.JupyterHub.services = [
    {
        "name": COURSE,
        "url": f"http://127.0.0.1:{SERVICE_PORT}",
        "command": [str(PREFIX / "bin/jupyterhub-singleuser")],
        "user": GRADER,
        "cwd": str(Path(pwd.getpwnam(GRADER).pw_dir) / "course"),
        "oauth_no_confirm": True,
        "environment": {
            "JUPYTER_CONFIG_PATH": config_path("grader", "everyone"),
            "JUPYTERHUB_DEFAULT_URL": "/formgrader/manage_assignments",
        },
    },
    {
        "name": "idle-culler",
        "command": [
            sys.executable,
            "-m",
            "jupyterhub_idle_culler",
            f"--timeout={round(SITE['idle_minutes'] * 60)}",
        ],
    },
]

c.JupyterHub.load_roles = [
    {
        "name": "instructor",
        "groups": [TEACH],
        "scopes": [
            f"access:services!service={COURSE}",
            "list:services",
            f"read:services!service={COURSE}",
        ],
    },
    {
        "name": "formgrader",
        "services": [COURSE],
        "scopes": [f"read:users:name!user={GRADER}", f"read:users:groups!user={GRADER}"],
    },
    {
        # nbgrader asks in the user's name which courses there are.
        "name": "server",
        "scopes": [
            "users:activity!user",
            "access:servers!server",
            "read:users:name!user",
            "read:users:groups!user",
            "list:services",
            "read:services",
        ],
    },
    {
        "name": "idle-culler",
        "services": ["idle-culler"],
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
    },
]
