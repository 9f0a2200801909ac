"""Lambda's API in memory: the configuration of functions and mappings. Nothing runs."""

from typing import Any

from simulation.aws.service import Answer, Gate, RefusedError, Service, operation


class FakeLambda(Service):
    service = "lambda"

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.functions: dict[str, dict[str, str]] = {}  # environment, by name
        self.concurrency = 1_000
        self.mappings: list[dict[str, Any]] = []

    @operation
    def get_function_configuration(self, *, FunctionName: str) -> Answer:
        if FunctionName not in self.functions:
            raise RefusedError(
                "ResourceNotFoundException", f"Function not found: {FunctionName}", status=404
            )
        variables = self.functions[FunctionName]
        return {
            "FunctionName": FunctionName,
            "State": "Active",
            "Environment": {"Variables": variables},
        }

    @operation
    def get_account_settings(self) -> Answer:
        return {"AccountLimit": {"UnreservedConcurrentExecutions": self.concurrency}}

    @operation
    def list_event_source_mappings(self, *, EventSourceArn: str) -> Answer:
        return {
            "EventSourceMappings": [
                each for each in self.mappings if each["EventSourceArn"] == EventSourceArn
            ]
        }
