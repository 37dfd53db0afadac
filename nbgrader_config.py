"""nbgrader's settings for this course; the folder of this file is the course directory."""

from nbgrader.plugins import FileNameCollectorPlugin
from nbgrader.preprocessors import AssignLatePenalties, CheckCellMetadata, SaveAutoGrades

from autograder.feedback import FeedbackExporter, HideTests, ReadMarks
from autograder.formgrader import SafeOutputs, markdown2html
from autograder.preprocessors import Examine

c = get_config()  # noqa: F821 (traitlets provides it)

# Names the course in the exchange; a hub may serve several.
c.CourseDirectory.course_id = "serving"

# nbgrader's own stub raises NotImplementedError, which would stop Run All at the first exercise.
c.ClearSolutions.code_stub = {"python": "# Your code here."}
c.ClearSolutions.text_stub = "Your answer here."

# Every lesson of the chapter ends with the same reference.
c.IncludeHeaderFooter.footer = "source/footer.ipynb"

# `nbgrader autograde` and formgrader grade as `autograder grade` does: in the sandbox.
c.Autograde.sanitize_preprocessors = [Examine]
c.Autograde.autograde_preprocessors = [SaveAutoGrades, AssignLatePenalties, CheckCellMetadata]

# A cell of this lesson needs milliseconds; some seconds tell a hang from a slow machine.
c.Examine.call_seconds = 5
c.Examine.cell_seconds = 10
c.Examine.preload = ["course"]

# nbgrader's own feedback shows the hidden tests and what the learner's code made of them.
c.GenerateFeedback.preprocessors = [ReadMarks, HideTests]
c.GenerateFeedback.exporter_class = FeedbackExporter

# What a submission shows must not act in formgrader's page.
c.HTMLExporter.preprocessors = [SafeOutputs]
c.HTMLExporter.filters = {"markdown2html": markdown2html}

# `nbgrader zip_collect` takes files named STUDENT_2026-11-20-10-30-15_NOTEBOOK.ipynb, whatever the
# student's id consists of. It matches against the whole path, hence the folders before the name.
c.FileNameCollectorPlugin.named_regexp = (
    r"(?:.*/)?(?P<student_id>[^/]+)_(?P<timestamp>\d{4}(?:-\d\d){5})_(?P<file_id>[^/]+)\.ipynb$"
)


class Collector(FileNameCollectorPlugin):
    """Hands the time of submission on without hyphens.

    With them dateutil takes minutes and seconds for a time zone: 10:30:15 becomes 01:00 of the next
    day, and a submission in time counts as late.
    """

    def collect(self, submitted_file):
        """Return what the file's name says, or None for a file to skip."""
        found = super().collect(submitted_file)
        return found and found | {"timestamp": found["timestamp"].replace("-", "")}


c.ZipCollectApp.collector_plugin = Collector
