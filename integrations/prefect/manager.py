"""What `tailrace managers` tells of Prefect's adapter."""

from tailrace.integrations.managers import Manager, of_distribution

MANAGER = Manager(
    title="Prefect",
    use="tailrace.prefect.trace()",
    version=of_distribution("prefect"),
    tested=("3.8.8", "3.8.8"),
)
