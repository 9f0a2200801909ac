"""Engines of AWS that others wrote: Amazon's DynamoDB Local, LocalStack, aws-local-stepfunctions.

Our fakes, moto and its repairs come from one reading of AWS. These come from other readings, so
that a mistake of ours shows as a difference. `tests/fidelity` lists the differences.
"""
