"""Secrets Manager: secrets by ARN, with the value that each has now."""

from simulation.aws.service import Answer, Gate, RefusedError, Service, known, operation


class FakeSecretsManager(Service):
    service = "secretsmanager"

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.secrets: dict[str, Answer] = {}  # what is said of each
        self.values: dict[str, str] = {}

    @operation
    def describe_secret(self, *, SecretId: str) -> Answer:
        return {"ARN": SecretId, **self._secret(SecretId)}

    @operation
    def get_secret_value(self, *, SecretId: str) -> Answer:
        if "DeletedDate" in self._secret(SecretId):
            raise RefusedError("InvalidRequestException", "the secret was scheduled for deletion")
        return {"ARN": SecretId, "SecretString": self.values[SecretId]}

    def put(self, arn: str, value: str) -> None:
        """Somebody makes or rotates it."""
        self.secrets.setdefault(arn, {})
        self.values[arn] = value

    def delete(self, arn: str) -> None:
        self.secrets.pop(arn, None)
        self.values.pop(arn, None)

    def _secret(self, arn: str) -> Answer:
        problem = "Secrets Manager can't find the specified secret."
        return known(self.secrets, arn, "ResourceNotFoundException", problem)
