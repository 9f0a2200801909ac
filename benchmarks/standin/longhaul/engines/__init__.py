from pathlib import Path

__path__.append(str(Path(__file__).parents[4] / "longhaul" / "engines"))
