"""Whether a hub keeps apart what must be kept apart: what is checked, what was found, what to mend.

The checks on a planned hub read its configuration and look at the machine through its people's
eyes; those on a running one ask it, in their names. Both need root.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import pwd
import stat
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import metadata
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypeVar

from nbgrader.exchange.default import Exchange

from autograder.coursedir import NoCourse, open_course
from autograder.doctor import DISTRIBUTION, Finding, examine_installation
from autograder.hub_plan import (
    ADMIN,
    INSTRUCTORS,
    LEARNERS,
    SQLITE,
    CoursePlan,
    HubPlan,
    NoPlan,
    Role,
    home,
    read_plan,
)

TOKEN_SECONDS: Final = 60
ANSWER_SECONDS: Final = 30
OK: Final = 200
FORBIDDEN: Final = 403
NO_ANSWER: Final = 0
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
NO_ACCOUNT: Final = "Make it (hub/install does), or take the name out of the configuration."
SEE_LOG: Final = "The hub's log says why; restart the hub after a change of its configuration."
POWERS: Final = frozenset(
    {
        "access:servers",
        "admin:auth_state",
        "admin:groups",
        "admin:server_state",
        "admin:servers",
        "admin:users",
        "delete:groups",
        "delete:servers",
        "delete:users",
        "groups",
        "proxy",
        "servers",
        "shares",
        "shutdown",
        "start:servers",
        "tokens",
        "users",
    }
)
"""JupyterHub's scopes by which one person acts on others, or on the hub."""

Result = TypeVar("Result")


def examine_hub(configuration: Path) -> list[Finding]:
    """Check the hub of a jupyterhub_config.py, and this machine for it."""
    if os.getuid() != 0:
        return [Finding(False, "only root can see what each account sees", "Run it with sudo.")]
    try:
        plan = read_plan(configuration)
    except NoPlan as reason:
        return [Finding(False, "no hub to check", f"{reason} Run hub/install first.")]
    findings = [*_accounts(plan), *_roles(plan), *_powers(plan), *_environment(), *_secrets(plan)]
    for course in plan.courses:
        findings += _course(course)
    return [*findings, *_running(plan)]


def _accounts(plan: HubPlan) -> Iterator[Finding]:
    for name in plan.people:
        folder = home(name)
        if folder is None:
            yield Finding(False, f"there is no account {name}", NO_ACCOUNT)
        elif not folder.is_dir():
            yield Finding(
                False, f"{name} has no home {folder}", f"Run: mkhomedir_helper {name} 0077"
            )
        elif folder.stat().st_mode & OTHERS:
            yield Finding(False, f"others can look into {folder}", f"Run: chmod 700 {folder}")
        else:
            yield Finding(True, f"account {name}, home closed to others")
        if plan.allowed is not None and name not in plan.allowed:
            yield Finding(
                False, f"the hub does not know {name}", "Add it to Authenticator.allowed_users."
            )


def _groups(course: CoursePlan) -> tuple[str, str]:
    return INSTRUCTORS + course.name, LEARNERS + course.name


def _roles(plan: HubPlan) -> Iterator[Finding]:
    for course in plan.courses:
        instructors, learners = _groups(course)
        wanted = f"access:services!service={course.name}"
        opening = [
            role
            for role in plan.roles
            if role.scopes & {wanted, "access:services", "admin:services"}
        ]
        if any(instructors in role.groups for role in opening):
            yield Finding(True, f"group {instructors} may use formgrader")
        else:
            yield Finding(
                False,
                f"group {instructors} may not use formgrader",
                f"Give it a role with the scope {wanted} in JupyterHub.load_roles.",
            )
        # Every user has the role "user".
        if wrong := [
            role.name
            for role in opening
            if role.name == "user" or plan.holders(role) & course.learners - course.instructors
        ]:
            yield Finding(
                False,
                f"learners may use formgrader: role {', '.join(wrong)}",
                f"Give {wanted} to {instructors} alone.",
            )
        if both := course.instructors & course.learners:
            yield Finding(
                False,
                f"both instructor and learner of {course.name}: {', '.join(sorted(both))}",
                f"Take them out of {instructors} or {learners}.",
            )
        if not course.instructors or not course.learners:
            yield Finding(
                False, f"{course.name} has no instructor or no learner", "Name them in the groups."
            )


def _powers(plan: HubPlan) -> Iterator[Finding]:
    learners = frozenset[str]().union(*(course.learners for course in plan.courses))
    found = False
    for role in plan.roles:
        holders = learners if role.name == "user" else learners & plan.holders(role)
        names = ", ".join(sorted(holders))
        powers = ", ".join(sorted(filter(_reaches_others, role.scopes)))
        if holders and role.name == ADMIN:
            found = True
            yield Finding(
                False,
                f"learners are administrators of the hub: {names}",
                "Take them out of Authenticator.admin_users, and their right away at /hub/admin.",
            )
        elif holders and powers:
            found = True
            yield Finding(
                False,
                f"role {role.name} gives learners {powers}: {names}",
                "Take it away in JupyterHub.load_roles and restart the hub.",
            )
    if not found:
        yield Finding(True, "no learner has power over others or over the hub")


def _reaches_others(scope: str) -> bool:
    power, _, whose = scope.partition("!")
    return power in POWERS and whose not in ("user", "server")


def _environment() -> Iterator[Finding]:
    if closed := [str(path) for path in _way_to(Path(sys.executable)) if not _open_to_all(path)]:
        yield Finding(
            False,
            f"learners cannot run {sys.executable}: {closed[0]} is closed to them",
            "Make the environment from the system's Python, in a folder that all may read.",
        )
    else:
        yield Finding(True, f"everybody can run {sys.executable}")
    origin = metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or "{}"
    if json.loads(origin).get("dir_info", {}).get("editable"):
        yield Finding(
            False,
            "the course is an editable install, which leads learners to the source",
            "Install the wheel: pip install --force-reinstall --no-deps *.whl",
        )
    else:
        yield Finding(True, "the course is installed from a wheel")
    module = importlib.util.find_spec("matplotlib")
    compiled = module and module.origin and importlib.util.cache_from_source(module.origin)
    if compiled and Path(compiled).exists():
        yield Finding(True, "the packages are byte-compiled")
    else:
        yield Finding(
            False,
            "the packages are not byte-compiled, so that every kernel starts slowly",
            f"Run: {sys.executable} -m compileall -q {sys.prefix}",
        )


def _way_to(program: Path) -> Iterator[Path]:
    for path in (program.absolute(), program.resolve()):
        yield from (path, *path.parents)


def _open_to_all(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IXOTH)


def _secrets(plan: HubPlan) -> Iterator[Finding]:
    learner = _some_learner(plan)
    if learner is None:
        return
    private = [*plan.secrets]
    for course in plan.courses:
        private += [course.folder, course.folder / "source", course.folder / "gradebook.db"]
    seen = _as_account(learner, {}, lambda: [str(path) for path in private if _readable(path)])
    for path in seen:
        yield Finding(False, f"{learner} can read {path}", f"Run: chmod go= {path}")
    if not seen:
        yield Finding(True, f"{learner} can read neither the course nor the hub's secrets")
    for folder in _as_account(learner, {}, _writable_parts):
        yield Finding(False, f"{learner} can write to {folder}", f"Run: chmod -R go-w {folder}")


def _some_learner(plan: HubPlan) -> str | None:
    learners = sorted(name for course in plan.courses for name in course.learners)
    return next((name for name in learners if home(name)), None)


def _readable(path: Path) -> bool:
    try:
        return os.access(path, os.R_OK) or (path.is_dir() and os.access(path, os.X_OK))
    except OSError:
        return False


def _writable_parts() -> list[str]:
    parts = [sys.prefix, *sys.path, f"{sys.prefix}/etc/jupyter", f"{sys.prefix}/share/jupyter"]
    return [part for part in parts if part and os.access(part, os.W_OK)]


def _course(course: CoursePlan) -> Iterator[Finding]:
    if not home(course.grader):
        yield Finding(
            False,
            f"formgrader of {course.name} runs as {course.grader or 'root'}",
            "Give its service the grader's account as `user`.",
        )
        return
    if not course.folder.is_dir():
        yield Finding(False, f"there is no course directory {course.folder}", "Run hub/install.")
        return
    try:
        # Walls, gradebook and time limits as that account has them.
        findings, root = _as_account(
            course.grader,
            course.environment,
            lambda: (examine_installation(course.folder), _exchange(course.folder)),
        )
    except RuntimeError as reason:
        yield Finding(
            False,
            f"the course in {course.folder} cannot be examined {reason}",
            "Mend its nbgrader_config.py or what else the message names, and run this again.",
        )
        return
    for finding in findings:
        yield Finding(finding.fine, f"{course.grader}: {finding.what}", finding.mend)
    if root:
        yield from _exchange_modes(Path(root), course.name)


def _exchange(folder: Path) -> str | None:
    """Return the exchange's folder; None if there is no course, which is a finding already."""
    try:
        course = open_course(folder)
    except NoCourse:
        return None
    return str(Exchange(coursedir=course, parent=course.parent).root)


def _exchange_modes(root: Path, course: str) -> Iterator[Finding]:
    if not root.is_dir():
        yield Finding(False, f"there is no exchange {root}", f"Run: mkdir -p -m 1777 {root}")
        return
    mode = stat.S_IMODE(root.stat().st_mode)
    if mode == 0o1777:
        yield Finding(True, f"exchange {root}: all may add to it, none may move what others put")
    else:
        yield Finding(False, f"the exchange {root} has mode {mode:o}", f"Run: chmod 1777 {root}")
    for folder in (root / course / "inbound", root / course / "feedback"):
        # Whoever can list these can read others' submissions and feedback.
        if folder.is_dir() and folder.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            yield Finding(False, f"learners can list {folder}", f"Run: chmod go-r {folder}")


def _running(plan: HubPlan) -> Iterator[Finding]:
    if _status(f"{plan.url}/hub/api/") != OK:
        yield Finding(True, f"no hub answers at {plan.url}: who gets to formgrader was not tried")
        return
    file = Path(plan.database.removeprefix(SQLITE))
    if plan.database.startswith(SQLITE) and not file.exists():
        yield Finding(
            False,
            f"the hub at {plan.url} runs, but there is no database {file.absolute()}",
            "Run this in the folder that the hub was started in.",
        )
        return
    yield from _remembered(plan, _stored(plan))
    for course in plan.courses:
        page = f"{plan.url}/services/{course.name}/formgrader/manage_assignments"
        for name in sorted(course.instructors):
            yield _instructor(name, _status_for(plan, name, page))
        for name in sorted(course.learners):
            yield _learner(name, _status_for(plan, name, page))


def _stored(plan: HubPlan) -> HubPlan:
    """Return the plan with groups and roles as they stand in the hub's database."""
    from jupyterhub import orm  # only a hub's environment has it

    with orm.new_session_factory(plan.database)() as session:
        return replace(
            plan,
            groups={group.name: _named(group.users) for group in session.query(orm.Group)},
            roles=tuple(
                Role(role.name, frozenset(role.scopes), _named(role.groups), _named(role.users))
                for role in session.query(orm.Role)
            ),
        )


def _named(rows: Iterable[Any]) -> frozenset[str]:
    return frozenset(row.name for row in rows)


def _remembered(plan: HubPlan, stored: HubPlan) -> Iterator[Finding]:
    """Compare what the running hub goes by with the configuration that it should go by."""
    for course in plan.courses:
        for group in _groups(course):
            differ = plan.groups.get(group, frozenset()) ^ stored.groups.get(group, frozenset())
            if differ:
                yield Finding(
                    False,
                    f"the running hub has others in {group} than its configuration: "
                    + ", ".join(sorted(differ)),
                    "Restart it with hub/start, which also takes out whom the file names no more.",
                )
    said = set(_powers(plan))
    yield from (fault for fault in _powers(stored) if not fault.fine and fault not in said)


def _instructor(name: str, status: int | None) -> Finding:
    if status == OK:
        return Finding(True, f"{name} gets to formgrader")
    return _strange(name, status)


def _learner(name: str, status: int | None) -> Finding:
    if status == FORBIDDEN:
        return Finding(True, f"{name} is refused at formgrader")
    if status == OK:
        mend = "Take the role away in JupyterHub.load_roles and restart the hub."
        return Finding(False, f"{name} gets to formgrader", mend)
    return _strange(name, status)


def _strange(name: str, status: int | None) -> Finding:
    if status is None:
        return Finding(False, f"the running hub does not know {name}", "Restart it.")
    if status == NO_ANSWER:
        return Finding(False, f"formgrader does not answer {name}", SEE_LOG)
    return Finding(False, f"formgrader answers {name} with status {status}", SEE_LOG)


def _status_for(plan: HubPlan, name: str, page: str) -> int | None:
    """Ask for a page in a user's name, with a token made for just that; None: no such user."""
    from jupyterhub import orm  # only a hub's environment has it

    with orm.new_session_factory(plan.database)() as session:
        user = orm.User.find(session, name)
        if user is None:
            return None
        # It expires by itself: the next would get a deleted one's number in the database, by which
        # the running hub still knows that one.
        token = user.new_api_token(note="autograder doctor", expires_in=TOKEN_SECONDS)
        session.commit()
    return _status(page, {"Authorization": f"token {token}"})


class _Stay(urllib.request.HTTPRedirectHandler):
    """Takes a way to the login page for an answer."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _status(url: str, headers: Mapping[str, str] | None = None) -> int:
    """Return the status of the answer, NO_ANSWER if there is none."""
    request = urllib.request.Request(url, headers=dict(headers or {}))  # noqa: S310 (the hub's own)
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=ANSWER_SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return NO_ANSWER


def _as_account(
    name: str, environment: Mapping[str, str], function: Callable[[], Result]
) -> Result:
    """Call a function in a process of that account and return what it returns.

    Raises:
        RuntimeError: it raised an exception or died.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_become, args=(name, environment, function, theirs))
    process.start()
    theirs.close()
    try:
        fine, result = ours.recv()
    except EOFError:
        fine, result = False, "it ended without an answer; what it printed says why"
    process.join()
    if not fine:
        raise RuntimeError(f"as {name}: {result}")
    return result


def _become(
    name: str, environment: Mapping[str, str], function: Callable[[], Any], answer: Connection
) -> None:
    try:
        account = pwd.getpwnam(name)
        os.initgroups(name, account.pw_gid)
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
        os.environ.update(environment, HOME=account.pw_dir, USER=name, LOGNAME=name)
        os.chdir("/")
        answer.send((True, function()))
    except Exception as error:
        answer.send((False, f"{type(error).__name__}: {error}"))
