"""What AWS answers, and what each engine that stands in for it answers: one table of rules.

Each rule is a call whose answer matters to Longhaul. AWS's answer comes from its documentation,
named by the last part of the page's address, or from answers that LocalStack's authors recorded
from AWS: then the source is the test, in the folder of AWS's services among the tests of
github.com/localstack/localstack (commit 8b9a79f05 of March 2026), with the month of the recording.
An engine that differs has its own answer there, with who is right; stock moto's stands beside the
repair that mends it.
"""
