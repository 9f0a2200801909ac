"""How fast Longhaul is beside plain Spark, as ratios of runs that take turns: what else the machine does then meets both alike."""
