"""The walls around learners' code: what it may do, and the room in which it runs.

`policy` says what is allowed, `lock` applies that to a process, `walls` finds out which walls this
machine offers, and `room` is what the grader uses.
"""
