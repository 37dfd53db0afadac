"""The doctor says what is wrong with a hub's plan, and what to do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from autograder.doctor import Finding
from autograder.hub_doctor import (
    _course,
    _exchange_modes,
    _instructor,
    _learner,
    _powers,
    _remembered,
    _roles,
    _status,
)
from autograder.hub_plan import CoursePlan, HubPlan, NoPlan, Role, read_plan

CONFIGURATION = """\
c = get_config()
c.JupyterHub.bind_url = "http://:8123/school/"
c.Authenticator.allowed_users = {"ines", "ada", "grader"}
c.JupyterHub.load_groups = {
    "formgrade-maths": {"users": ["ines", "grader"]},
    "nbgrader-maths": ["ada"],
}
c.JupyterHub.services = [
    {"name": "culler", "command": ["true"]},
    {"name": "maths", "user": "grader", "cwd": "/home/grader/maths", "command": ["true"]},
]
c.JupyterHub.load_roles = [
    {
        "name": "teach",
        "groups": ["formgrade-maths"],
        "scopes": ["access:services!service=maths"],
    },
]
"""


@pytest.fixture
def plan(tmp_path: Path) -> HubPlan:
    file = tmp_path / "jupyterhub_config.py"
    file.write_text(CONFIGURATION)
    return read_plan(file)


def faults(findings: list[Finding]) -> list[str]:
    return [finding.what for finding in findings if not finding.fine]


def test_the_plan_names_the_course_and_its_people(plan: HubPlan) -> None:
    (course,) = plan.courses

    assert (course.name, course.grader, course.folder) == (
        "maths",
        "grader",
        Path("/home/grader/maths"),
    )
    assert course.instructors == frozenset({"ines"})
    assert course.learners == frozenset({"ada"})
    assert plan.people == ("ada", "grader", "ines")
    assert plan.url == "http://127.0.0.1:8123/school"
    assert faults([*_roles(plan), *_powers(plan), *_remembered(plan, plan)]) == []


def test_what_a_configuration_adds_to_a_setting_counts(tmp_path: Path) -> None:
    file = tmp_path / "jupyterhub_config.py"
    file.write_text(
        CONFIGURATION.replace("load_roles = [", "load_roles.extend([").rstrip()
        + ")\nc.PAMAuthenticator.admin_users.add('ada')\n"
    )
    plan = read_plan(file)

    assert faults(list(_roles(plan))) == []
    assert faults(list(_powers(plan))) == ["learners are administrators of the hub: ada"]


def test_a_configuration_that_breaks_is_named_with_its_error(tmp_path: Path) -> None:
    file = tmp_path / "jupyterhub_config.py"
    file.write_text("1 / 0")
    with pytest.raises(NoPlan, match=r"jupyterhub_config\.py cannot be read: ZeroDivisionError"):
        read_plan(file)


def test_a_hub_without_a_course_is_no_plan(tmp_path: Path) -> None:
    file = tmp_path / "jupyterhub_config.py"
    file.write_text("c = get_config()")
    with pytest.raises(NoPlan, match="formgrade-COURSE"):
        read_plan(file)


def test_instructors_without_the_role_are_a_fault(plan: HubPlan) -> None:
    assert faults(list(_roles(replace(plan, roles=())))) == [
        "group formgrade-maths may not use formgrader"
    ]


@pytest.mark.parametrize(
    "role",
    [
        Role("user", frozenset({"access:services"}), frozenset(), frozenset()),
        Role("all", frozenset({"access:services"}), frozenset({"nbgrader-maths"}), frozenset()),
        Role("one", frozenset({"access:services!service=maths"}), frozenset(), frozenset({"ada"})),
    ],
)
def test_a_role_that_lets_learners_into_formgrader_is_a_fault(plan: HubPlan, role: Role) -> None:
    assert faults(list(_roles(replace(plan, roles=(*plan.roles, role))))) == [
        f"learners may use formgrader: role {role.name}"
    ]


def test_who_is_both_learner_and_instructor_is_a_fault(plan: HubPlan) -> None:
    (course,) = plan.courses
    both = replace(course, learners=frozenset({"ada", "ines"}))
    (fault,) = faults(list(_roles(replace(plan, courses=(both,)))))

    assert fault == "both instructor and learner of maths: ines"


def test_an_exchange_that_is_closed_or_shows_submissions_is_a_fault(tmp_path: Path) -> None:
    exchange = tmp_path / "exchange"
    (finding,) = _exchange_modes(exchange, "maths")
    assert finding.mend == f"Run: mkdir -p -m 1777 {exchange}"

    inbound = exchange / "maths/inbound"
    inbound.mkdir(parents=True)
    exchange.chmod(0o755)
    inbound.chmod(0o777)
    assert faults(list(_exchange_modes(exchange, "maths"))) == [
        f"the exchange {exchange} has mode 755",
        f"learners can list {inbound}",
    ]

    exchange.chmod(0o1777)
    inbound.chmod(0o1733)
    assert faults(list(_exchange_modes(exchange, "maths"))) == []


@pytest.mark.parametrize(
    ("role", "power"),
    [
        (Role("user", frozenset({"self", "tokens"}), frozenset(), frozenset()), "tokens"),
        (
            Role("help", frozenset({"servers", "list:users"}), frozenset(), frozenset({"ada"})),
            "servers",
        ),
        (
            Role("chat", frozenset({"access:servers"}), frozenset({"nbgrader-maths"}), frozenset()),
            "access:servers",
        ),
        (
            Role("one", frozenset({"access:servers!user=ines"}), frozenset({"club"}), frozenset()),
            "access:servers!user=ines",
        ),
    ],
)
def test_a_role_that_gives_learners_power_over_others_is_a_fault(
    plan: HubPlan, role: Role, power: str
) -> None:
    more = replace(
        plan, roles=(*plan.roles, role), groups={**plan.groups, "club": frozenset({"ada"})}
    )

    assert faults(list(_powers(more))) == [f"role {role.name} gives learners {power}: ada"]


@pytest.mark.parametrize(
    "role",
    [
        Role("user", frozenset({"self", "access:servers!user"}), frozenset(), frozenset()),
        Role("admin", frozenset(), frozenset(), frozenset({"ines"})),
        Role("help", frozenset({"servers"}), frozenset({"formgrade-maths"}), frozenset()),
    ],
)
def test_power_over_oneself_or_of_instructors_is_no_fault(plan: HubPlan, role: Role) -> None:
    assert faults(list(_powers(replace(plan, roles=(*plan.roles, role))))) == []


def test_what_a_running_hub_still_goes_by_is_a_fault(plan: HubPlan) -> None:
    admin = Role("admin", frozenset(), frozenset(), frozenset({"ada"}))
    groups = {**plan.groups, "formgrade-maths": frozenset({"ines", "grader", "otto"})}
    stored = replace(plan, groups=groups, roles=(*plan.roles, admin))

    assert faults(list(_remembered(plan, stored))) == [
        "the running hub has others in formgrade-maths than its configuration: otto",
        "learners are administrators of the hub: ada",
    ]
    # As after a change that it has not read yet.
    assert list(_remembered(replace(plan, roles=stored.roles), plan)) == []


@pytest.mark.root
@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        ("Exchange.timezone", "The 'timezone' trait"),
        ("Examine.call_seconds", "The 'call_seconds' trait"),
    ],
)
def test_a_course_whose_settings_are_wrong_is_a_fault(
    tmp_path: Path, setting: str, fault: str
) -> None:
    (tmp_path / "nbgrader_config.py").write_text(f"c = get_config()\nc.{setting} = []\n")
    course = CoursePlan("maths", "root", tmp_path, {}, frozenset(), frozenset())
    found = [finding.what for finding in _course(course) if not finding.fine]

    assert any(fault in what for what in found), found


@contextmanager
def formgrader_that_answers(status: int) -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Location", "/hub/login")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


@pytest.mark.parametrize("status", [302, 404, 500, 503])
def test_for_a_learner_no_answer_but_a_refusal_is_well(status: int) -> None:
    with formgrader_that_answers(status) as page:
        for finding in (_learner("ada", _status(page)), _instructor("ines", _status(page))):
            assert not finding.fine
            assert f"with status {status}" in finding.what
            assert "log" in finding.mend


def test_a_learner_whom_formgrader_lets_in_is_a_fault_and_one_whom_it_refuses_is_none() -> None:
    with formgrader_that_answers(200) as page:
        assert _learner("ada", _status(page)).what == "ada gets to formgrader"
        assert not _learner("ada", _status(page)).fine
        assert _instructor("ines", _status(page)).fine
    with formgrader_that_answers(403) as page:
        assert _learner("ada", _status(page)).fine
        assert not _instructor("ines", _status(page)).fine


def test_silence_and_an_unknown_name_are_faults() -> None:
    with formgrader_that_answers(200) as page:
        pass

    assert faults([_learner("ada", _status(page)), _learner("ada", None)]) == [
        "formgrader does not answer ada",
        "the running hub does not know ada",
    ]
