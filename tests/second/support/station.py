"""What every station of the survey shares."""

MM_PER_INCH = 25.4


def to_inches(mm: float) -> float:
    """Convert millimetres of rain to inches."""
    return mm / MM_PER_INCH
