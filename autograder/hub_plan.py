"""What a JupyterHub's configuration says about courses and people; the hub need not run."""

from __future__ import annotations

import pwd
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from traitlets.config.loader import Config, LazyConfigValue, PyFileConfigLoader

# nbgrader's names for the hub's groups of a course.
INSTRUCTORS: Final = "formgrade-"
LEARNERS: Final = "nbgrader-"
# How SQLAlchemy's address of a database in a file begins; the path follows.
SQLITE: Final = "sqlite:///"
ADMIN: Final = "admin"
"""JupyterHub's role that may do everything."""


class NoPlan(Exception):
    """The hub's configuration cannot be read or holds no course; the message says why."""


@dataclass(frozen=True)
class CoursePlan:
    """A course on the hub.

    Args:
        name: the course_id, which is also the name of formgrader's service.
        grader: the account that formgrader runs as, "" if the service names none.
        folder: where it runs: the course directory.
        environment: the variables it gets.
        instructors: who may use formgrader.
        learners: who takes the course.
    """

    name: str
    grader: str
    folder: Path
    environment: Mapping[str, str]
    instructors: frozenset[str]
    learners: frozenset[str]


@dataclass(frozen=True)
class Role:
    """Scopes, and who gets them."""

    name: str
    scopes: frozenset[str]
    groups: frozenset[str]
    users: frozenset[str]


@dataclass(frozen=True)
class HubPlan:
    """A hub as its configuration has it.

    Args:
        url: its address from this machine.
        database: SQLAlchemy's address of the hub's database.
        secrets: files that only root may read.
        allowed: who may log in; None if the configuration does not list them.
        groups: the members of each group.
        roles: the roles that it makes or changes, and the one of its administrators.
        courses: the courses with a formgrader.
    """

    url: str
    database: str
    secrets: tuple[Path, ...]
    allowed: frozenset[str] | None
    groups: Mapping[str, frozenset[str]]
    roles: tuple[Role, ...]
    courses: tuple[CoursePlan, ...]

    @property
    def people(self) -> tuple[str, ...]:
        """All accounts that have a part in a course."""
        names: set[str] = set()
        for course in self.courses:
            names |= course.instructors | course.learners | {course.grader}
        return tuple(sorted(names - {""}))

    def holders(self, role: Role) -> frozenset[str]:
        """Return who has a role, by name or through a group."""
        return role.users.union(*(self.groups.get(group, frozenset()) for group in role.groups))


def read_plan(file: Path) -> HubPlan:
    """Read a jupyterhub_config.py.

    Raises:
        NoPlan: it cannot be read, or serves no formgrader.
    """
    try:
        config = PyFileConfigLoader(file.name, str(file.resolve().parent)).load_config()
    except Exception as error:  # whatever its Python raises
        raise NoPlan(f"{file} cannot be read: {type(error).__name__}: {error}") from error
    hub = config.JupyterHub
    loaded = _value(hub, "load_groups", {})
    groups = {name: frozenset(_users(group)) for name, group in loaded.items()}
    courses = tuple(_courses(_value(hub, "services", []), groups))
    if not courses:
        raise NoPlan(f"{file} has a group {INSTRUCTORS}COURSE and a service COURSE for no course.")
    allowed = _names(config, "allowed_users")
    admins = Role(ADMIN, frozenset(), frozenset(), _names(config, "admin_users") or frozenset())
    database = hub.get("db_url", f"{SQLITE}jupyterhub.sqlite")
    secrets = [hub.get("cookie_secret_file", "jupyterhub_cookie_secret")]
    if database.startswith(SQLITE):
        secrets.append(database.removeprefix(SQLITE))
    return HubPlan(
        url=_local(hub.get("bind_url", "http://:8000")),
        database=database,
        secrets=tuple(map(Path, secrets)),
        allowed=allowed,
        groups=groups,
        roles=(*map(_role, _value(hub, "load_roles", [])), admins),
        courses=courses,
    )


def home(account: str) -> Path | None:
    """Return an account's home, None if there is no such account."""
    try:
        return Path(pwd.getpwnam(account).pw_dir)
    except KeyError:
        return None


def _courses(
    services: list[dict[str, Any]], groups: Mapping[str, frozenset[str]]
) -> Iterator[CoursePlan]:
    for service in services:
        name = service["name"]
        if INSTRUCTORS + name not in groups:
            continue
        grader = service.get("user", "")
        yield CoursePlan(
            name=name,
            grader=grader,
            folder=Path(service.get("cwd", ".")),
            environment=service.get("environment", {}),
            instructors=groups[INSTRUCTORS + name] - {grader},
            learners=groups.get(LEARNERS + name, frozenset()),
        )


def _names(config: Config, setting: str) -> frozenset[str] | None:
    """Return the names in a setting of the authenticator, under whichever class it stands."""
    found = [
        _value(section, setting, set())
        for name, section in config.items()
        if name.endswith("Authenticator") and setting in section
    ]
    return frozenset().union(*found) if found else None


def _value(section: Config, name: str, default: Any) -> Any:
    """Return a setting, also one that the configuration only adds to."""
    value = section.get(name, default)
    return value.get_value(default) if isinstance(value, LazyConfigValue) else value


def _users(group: Any) -> list[str]:
    return list(group["users"] if isinstance(group, dict) else group)


def _role(role: Mapping[str, Any]) -> Role:
    who = (frozenset(role.get(kind, ())) for kind in ("scopes", "groups", "users"))
    return Role(role["name"], *who)


def _local(url: str) -> str:
    """Return the address for this machine of one that names every interface, or none."""
    parts = urlsplit(url)
    everywhere = (None, "", "0.0.0.0", "::", "*")  # noqa: S104 (compared, not bound)
    host = "127.0.0.1" if parts.hostname in everywhere else parts.hostname
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit((parts.scheme, f"{host}{port}", parts.path.rstrip("/"), "", ""))
