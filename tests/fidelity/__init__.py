"""What AWS answers, and what each engine that stands in for it answers: one table of rules.

`docs/fidelity.md` is made of it (`python -m tests.fidelity.page`).
"""
