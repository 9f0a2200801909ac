"""The jobs that a message can name, one module each. Modules named `_…` are helpers."""
