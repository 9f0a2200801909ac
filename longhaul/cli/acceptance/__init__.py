"""The acceptance test of a deployed stack: `longhaul verify`.

`cases` is the table of what is tried, `watcher` tries it and reads the rows, `legs` says how long
each step took, `verdicts` compares, `page` shows it. `soak` does so for minutes on end.
"""
