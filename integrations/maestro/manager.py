"""What `tailrace managers` tells of Maestro's adapter."""

from tailrace.integrations.managers import Manager, of_program

MANAGER = Manager(
    title="Maestro",
    use='batch: {shell: "$(tailrace adapter maestro)"}',
    version=of_program("maestro", "--version"),
    tested=("1.2.1", "1.2.1"),
)
