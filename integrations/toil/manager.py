"""What `tailrace managers` tells of toil's adapter."""

from tailrace.integrations.managers import Manager, of_program

MANAGER = Manager(
    title="toil (CWL)",
    use="python -m tailrace.toil workflow.cwl job.yml",
    version=of_program("toil-cwl-runner", "--version"),
    tested=("9.6.0", "9.6.0"),
)
