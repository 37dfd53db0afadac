"""nbgrader's settings for all who use the hub."""

import tomllib
from pathlib import Path

c = get_config()  # noqa: F821 (traitlets provides it)

SITE = tomllib.loads((Path(__file__).parents[1] / "site.toml").read_text())

c.Exchange.root = SITE["exchange"]
c.Exchange.path_includes_course = True
c.Authenticator.plugin_class = "nbgrader.auth.JupyterHubAuthPlugin"
# Whoever presses Validate sees no figure, and no point hangs on one.
c.Validator.Execute.skip_cells_with_tag = "explore"
# Asked to end by itself, a kernel takes longer, now and then by seconds.
c.Validator.Execute.shutdown_kernel = "immediate"
