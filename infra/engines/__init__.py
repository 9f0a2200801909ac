"""The engines: each has its resources, its settings, its rights, and its states of the machine.

`longhaul/domain/engines/` says what else belongs to an engine.
"""
