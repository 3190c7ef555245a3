"""What `tailrace managers` tells of cwltool's adapter."""

from tailrace.integrations.managers import Manager, of_program

MANAGER = Manager(
    title="cwltool (CWL)",
    use="python -m tailrace.cwl workflow.cwl job.yml",
    version=of_program("cwltool", "--version"),
    tested=("3.3.20260925135507", "3.3.20260925135507"),
)
