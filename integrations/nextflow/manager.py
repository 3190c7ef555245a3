"""What `tailrace managers` tells of Nextflow's adapter."""

from tailrace.integrations.managers import Manager, of_program

MANAGER = Manager(
    title="Nextflow",
    use='nextflow -c "$(tailrace adapter nextflow)" run PIPELINE',
    version=of_program("nextflow", "-v"),
    tested=("24.10.0", "25.04.4"),
)
