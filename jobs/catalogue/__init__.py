"""The jobs that a message can name, one module each; `_`-modules are helpers and no jobs."""
