"""What `tailrace managers` tells of Makeflow's adapter."""

from tailrace.integrations.managers import Manager, of_program

MANAGER = Manager(
    title="Makeflow",
    use='makeflow --wrapper "$(tailrace adapter makeflow) %%" FLOW',
    version=of_program("makeflow", "--version"),
    tested=("8.0.0", "8.0.0"),
)
