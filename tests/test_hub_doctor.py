"""The doctor says what is wrong with a hub's plan, and what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autograder.doctor import Finding
from autograder.hub_doctor import _exchange_modes, _roles
from autograder.hub_plan import HubPlan, NoPlan, Role, read_plan

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
    assert faults(list(_roles(plan))) == []


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
