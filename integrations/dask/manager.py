"""What `tailrace managers` tells of Dask's adapter."""

from tailrace.integrations.managers import Manager, of_distribution

MANAGER = Manager(
    title="Dask distributed",
    use="client = tailrace.dask.trace(Client(...))",
    version=of_distribution("distributed"),
    tested=("2024.12.1", "2026.8.0"),
)
