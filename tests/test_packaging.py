"""What is installed, from which lists, and how the notebooks and the release are built."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "disaggregated-serving-course"
CONDA_NAMES = {"matplotlib": "matplotlib-base"}  # the same without Qt


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


def requirements(root: Path, *extras: str) -> list[Requirement]:
    """The project's own requirements and those of the extras, the project itself left out."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    lines = project["dependencies"] + [
        line for extra in extras for line in project["optional-dependencies"][extra]
    ]
    return [found for found in map(Requirement, lines) if found.name != PROJECT]


def test_the_conda_environment_asks_for_what_an_instructor_needs_with_the_same_bounds(
    root: Path,
) -> None:
    *conda, last = yaml.safe_load((root / "environment.yml").read_text())["dependencies"]
    *by_pip, itself = last["pip"]
    asked = {found.name: found.specifier for found in map(Requirement, conda + by_pip)}
    needed = {
        CONDA_NAMES.get(found.name, found.name): found.specifier
        for found in requirements(root, "learner", "instructor")
    }
    python = tomllib.loads((root / "pyproject.toml").read_text())["project"]["requires-python"]

    assert str(asked.pop("python")) == python
    assert not asked.pop("pip")
    assert asked == needed
    assert itself == ".[instructor]"


LOCKS = {
    "requirements.lock": ("learner", "instructor", "cluster", "postgresql", "test"),
    "hub/requirements.lock": ("learner", "instructor", "hub"),
}


def locked(root: Path, lock: str) -> dict[str, str]:
    """The version of each package in a lock."""
    lines = re.findall(r"^([\w.-]+)(?:\[[^]]+\])?==(\S+)", (root / lock).read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in lines}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_an_allowed_version_of_every_requirement(root: Path, lock: str) -> None:
    versions = locked(root, lock)

    for needed in requirements(root, *LOCKS[lock]):
        version = versions[canonicalize_name(needed.name)]
        assert needed.specifier.contains(version, prereleases=True), needed


def test_the_hub_runs_the_versions_that_are_tested(root: Path) -> None:
    tested, on_the_hub = (locked(root, lock) for lock in LOCKS)

    assert {name: on_the_hub[name] for name in tested.keys() & on_the_hub.keys()} == {
        name: tested[name] for name in tested.keys() & on_the_hub.keys()
    }


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_address_and_hashes_everything(root: Path, lock: str) -> None:
    text = (root / lock).read_text()

    assert "://" not in text
    assert not re.search(r"^\s*(-[a-z]|--(?!hash))", text, re.MULTILINE)
    for entry in re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)):
        assert "--hash=sha256:" in entry


def test_the_proxys_lock_names_no_address_and_hashes_everything(root: Path) -> None:
    text = (root / "hub/proxy/package-lock.json").read_text()
    packages = json.loads(text)["packages"]
    packages.pop("")

    assert "://" not in text
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())


def test_the_wheel_that_learners_install_holds_the_packages_and_neither_source_nor_tests(
    root: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(
        root, tree, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "demo", "lab")
    )
    built = run(
        sys.executable, "-c", "import setuptools.build_meta as b; b.build_wheel('..')", cwd=tree
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    installed = re.compile(r"[^/]+\.(dist-info|data)/")
    folders = {name.split("/")[0] for name in names if not installed.match(name)}
    data = [name.split("/", 1)[1] for name in names if ".data/" in name]

    assert "course/py.typed" in names
    assert folders <= {"course", "autograder"}
    assert data == ["data/etc/jupyter/jupyter_server_config.d/autograder.json"]
    assert "autograder/templates/formgrader/base/mathjax.html.j2" in names


def test_what_the_system_lacks_is_named_with_the_command_that_installs_it(root: Path) -> None:
    asked = subprocess.run(
        ["sh", "-s", "no-such-package"],
        stdin=(root / ".ci/system").open(),
        capture_output=True,
        text=True,
        # As root it would install: ask as nobody.
        user=65534 if os.getuid() == 0 else None,
    )

    assert asked.returncode == 1
    assert "sudo apt-get install -y no-such-package\n" in asked.stderr


LESSON = '''\
# %% [markdown]
# A lesson

# %% nbgrader={"grade": false, "grade_id": "double", "locked": false, "schema_version": 3, "solution": true, "task": false}
def double(x):
    """Twice x."""
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
assert double(2) == 4
### BEGIN HIDDEN TESTS
assert double(3) == 6
### END HIDDEN TESTS

# %% tags=["nbval-ignore-output"]
print(object())

# %%
print("same")

# %%
print("same")
'''  # noqa: E501
FOOTER = "# %% [markdown]\n# The chapter's reference\n"


def build(root: Path, text: Path, target: Path) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, root / "source/build.py", text, target, cwd=text.parent)


@pytest.fixture(scope="module")
def course(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course directory with this course's configuration and a tiny lesson."""
    folder = tmp_path_factory.mktemp("course")
    shutil.copy(root / "nbgrader_config.py", folder)
    for text, name, target in (
        (LESSON, "lesson.py", "source/tiny/lesson.ipynb"),
        (FOOTER, "footer.py", "source/footer.ipynb"),
    ):
        (folder / name).write_text(text)
        built = build(root, folder / name, folder / target)
        assert built.returncode == 0, built.stderr
    return folder


def test_a_lesson_built_twice_is_the_same_file_with_the_reference_outputs(
    root: Path, course: Path
) -> None:
    first = course / "source/tiny/lesson.ipynb"
    second = course / "again.ipynb"
    build(root, course / "lesson.py", second)
    notebook = nbformat.read(first, as_version=4)
    *_, changing, one, other = notebook.cells

    assert first.read_bytes() == second.read_bytes()
    assert "version" not in notebook.metadata.language_info
    assert changing.outputs == []
    assert one.outputs[0].text == "same\n"
    assert one.id != other.id


def test_a_lesson_whose_solution_fails_its_test_is_not_built(root: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(LESSON.replace("2 * x", "3 * x"))
    refused = build(root, tmp_path / "wrong.py", tmp_path / "wrong.ipynb")

    assert refused.returncode != 0
    assert "this cell fails with AssertionError" in refused.stderr
    assert not (tmp_path / "wrong.ipynb").exists()


def test_nbgrader_releases_stubs_that_run_and_the_footer_and_no_solution(course: Path) -> None:
    released = run("nbgrader", "generate_assignment", "tiny", cwd=course)
    assert released.returncode == 0, released.stderr
    notebook = nbformat.read(course / "release/tiny/lesson.ipynb", as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells)

    assert "# Your code here." in text
    assert "return 2 * x" not in text
    assert "double(3)" not in text
    assert "NotImplementedError" not in text
    assert notebook.cells[-1].source == "The chapter's reference"


def test_files_from_elsewhere_are_collected_by_student_time_and_notebook(
    root: Path, tmp_path: Path
) -> None:
    students = ["bitdiddle", "ada-lovelace", "j.doe_2", "zoë@example.org"]
    shutil.copy(root / "nbgrader_config.py", tmp_path)
    archive = tmp_path / "downloaded/tiny/archive"
    archive.mkdir(parents=True)
    for student in students:
        (archive / f"{student}_2026-11-20-10-30-15_lesson.ipynb").write_text("{}")
    collected = run("nbgrader", "zip_collect", "tiny", cwd=tmp_path)

    for student in students:
        submission = tmp_path / "submitted" / student / "tiny"
        assert (submission / "lesson.ipynb").exists(), collected.stderr
        assert (submission / "timestamp.txt").read_text() == "2026-11-20 10:30:15"
