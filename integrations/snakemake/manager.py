"""What `tailrace managers` tells of Snakemake's adapter."""

from tailrace.integrations.managers import Manager, of_program

MANAGER = Manager(
    title="Snakemake",
    use="snakemake --logger tailrace",
    version=of_program("snakemake", "--version"),
    tested=("7.32.4", "9.27.1"),
)
