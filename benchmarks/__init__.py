"""The speed of Longhaul beside plain Spark, as ratios of runs that take turns.

Other load on the machine then affects both sides alike.
"""
