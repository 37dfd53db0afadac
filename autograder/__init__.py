"""Examine submitted notebooks; holds no solution, no hidden test and no answer of any lesson."""
