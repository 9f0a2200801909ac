"""An engine of AWS that others wrote: Amazon's DynamoDB Local.

Our fakes, moto and its repairs come from one reading of AWS. This comes from another reading, so
that a mistake of ours shows as a difference. `tests/fidelity` lists the differences.
"""
