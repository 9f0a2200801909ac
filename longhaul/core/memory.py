"""How a machine's memory is divided between the JVM's heap and everything beside it."""

# For Spark's off-heap buffers, Python workers and the runner. With less, a small task is killed
# instead of failing with a reason.
_OVERHEAD_FRACTION = 0.30
_MIN_OVERHEAD_MIB = 768
_MIN_HEAP_MIB = 512


def heap_mib(memory_mib: int) -> int:
    """MiB of the JVM's heap on a machine with `memory_mib`."""
    overhead = max(_MIN_OVERHEAD_MIB, int(memory_mib * _OVERHEAD_FRACTION))
    return max(_MIN_HEAP_MIB, memory_mib - overhead)
