from pathlib import Path

# What is not here is the checkout's.
__path__.append(str(Path(__file__).parents[5] / "longhaul" / "engines" / "fargate"))
