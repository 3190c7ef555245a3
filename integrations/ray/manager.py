"""What `tailrace managers` tells of Ray's adapter."""

from tailrace.integrations.managers import Manager, of_distribution

MANAGER = Manager(
    title="Ray",
    use="tailrace.ray.trace()",
    version=of_distribution("ray"),
    tested=("2.60.0", "2.60.0"),
)
