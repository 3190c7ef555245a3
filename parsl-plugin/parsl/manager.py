"""What `tailrace managers` tells of Parsl's adapter."""

from tailrace.integrations.managers import Manager, of_distribution

MANAGER = Manager(
    title="Parsl",
    use="parsl.load(tailrace.parsl.trace(config))",
    version=of_distribution("parsl"),
    tested=("2025.12.8", "2026.10.26"),
)
