"""What `tailrace managers` tells of Flux's adapter."""

from tailrace.integrations.managers import Manager, of_program

MANAGER = Manager(
    title="Flux",
    use="flux submit --trace CMD",
    version=of_program("flux", "--version"),
    tested=("0.88.0", "0.88.0"),
)
