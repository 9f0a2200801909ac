"""The acceptance test of a deployed stack: `longhaul verify`.

`cases` is the table of what is tried, `run` tries it and judges.
"""
