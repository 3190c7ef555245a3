"""What `tailrace managers` tells of Merlin's adapter."""

from tailrace.integrations.managers import Manager, of_program

MANAGER = Manager(
    title="Merlin",
    use='batch: {shell: "$(tailrace adapter merlin)"}',
    version=of_program("merlin", "--version"),
    tested=("1.13.0", "1.13.0"),
)
