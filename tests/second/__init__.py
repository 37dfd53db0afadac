"""A second assignment, unlike the lesson: what else nbgrader's users put into theirs."""
