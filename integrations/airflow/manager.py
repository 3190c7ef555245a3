"""What `tailrace managers` tells of Airflow's adapter."""

from tailrace.integrations.managers import Manager, of_distribution

MANAGER = Manager(
    title="Airflow",
    use="tailrace run -o run -- airflow dags test DAG",
    version=of_distribution("apache-airflow"),
    tested=("3.3.2", "3.3.2"),
)
