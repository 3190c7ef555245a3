"""What `tailrace managers` tells of Luigi's adapter."""

from tailrace.integrations.managers import Manager, of_distribution

MANAGER = Manager(
    title="Luigi",
    use="python -m tailrace.luigi --module MODULE TASK",
    version=of_distribution("luigi"),
    tested=("3.8.1", "3.8.1"),
)
