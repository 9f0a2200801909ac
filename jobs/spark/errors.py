"""Apart from the gateway, which needs a JVM of its own."""


class GatewayError(Exception):
    """The JVM did not come up."""
