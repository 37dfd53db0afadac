"""nbgrader's settings for the account that grades, beside those in the course directory."""

import os
import pwd
import tomllib
from pathlib import Path

from nbgrader.exchange.default import ExchangeCollect

c = get_config()  # noqa: F821 (traitlets provides it)

SITE = tomllib.loads((Path(__file__).parents[1] / "site.toml").read_text())

c.CourseDirectory.root = os.path.join(pwd.getpwnam(SITE["grader"]).pw_dir, "course")  # noqa: PTH118
c.CourseDirectory.course_id = SITE["course"]


class OwnersOnly(ExchangeCollect):
    """Collect a submission only from the account whose name it bears.

    Everybody may write into the exchange, under any name; nbgrader itself warns and collects.
    """

    def init_src(self):
        """Find the submissions, and leave alone what somebody else put there."""
        super().init_src()
        genuine = []
        for record in self.src_records:
            owner = Path(record["filename"]).owner()
            if owner == record["username"]:
                genuine.append(record)
            else:
                self.log.error("Not collected: %s belongs to %s", record["filename"], owner)
        self.src_records = genuine


c.ExchangeFactory.collect = OwnersOnly
