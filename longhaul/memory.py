"""How a machine's memory is shared out: so much for the JVM's heap, the rest for all that lives beside it."""

# Beside the heap live Spark's off-heap buffers, Python workers and the runner itself; below this a small task is killed instead of failing with a reason.
_OVERHEAD_FRACTION = 0.30
_MIN_OVERHEAD_MIB = 768
_MIN_HEAP_MIB = 512


def heap_mib(memory_mib: int) -> int:
    """Memory of the JVM's heap on a machine with so much, with room left for all else."""
    overhead = max(_MIN_OVERHEAD_MIB, int(memory_mib * _OVERHEAD_FRACTION))
    return max(_MIN_HEAP_MIB, memory_mib - overhead)
