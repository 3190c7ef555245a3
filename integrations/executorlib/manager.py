"""What `tailrace managers` tells of executorlib's adapter."""

from tailrace.integrations.managers import Manager, of_distribution

MANAGER = Manager(
    title="executorlib",
    use="tailrace.executorlib.trace()",
    version=of_distribution("executorlib"),
    tested=("1.11.0", "1.11.0"),
)
