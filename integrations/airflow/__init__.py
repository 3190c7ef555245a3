"""Tracing for Airflow: the I/O of every task instance is tagged with DAG, task, run and try.

tailrace run -o run -- airflow dags test DAG

plugin.py     what Airflow finds by its group of entry points: listeners, which load the rest where it is traced
tasks.py      the scope of a task instance in its process, and what is declared of it there
dag_runs.py   the whole graph, and how those instances ended that no process told of, when a DAG run is over
"""
