"""Takes from the hub's database whom site.toml does not name any more; by itself the hub only adds.

hub/start runs it while no hub does.
"""

import tomllib
from pathlib import Path

from jupyterhub import orm

SITE = tomllib.loads(Path(__file__).with_name("site.toml").read_text())
DATABASE = Path(SITE["state"], "jupyterhub.sqlite")
MEMBERS = {
    f"formgrade-{SITE['course']}": {*SITE["instructors"], SITE["grader"]},
    f"nbgrader-{SITE['course']}": {*SITE["learners"]},
}


def main():
    """Leave the others as they are."""
    with orm.new_session_factory(f"sqlite:///{DATABASE}")() as session:
        for group in session.query(orm.Group).filter(orm.Group.name.in_(MEMBERS)):
            group.users = [user for user in group.users if user.name in MEMBERS[group.name]]
        for user in session.query(orm.User):
            if user.name not in set().union(*MEMBERS.values()):
                session.delete(user)  # and with it the logins that are still good
        session.commit()


if DATABASE.exists():
    main()
