"""What several tests share: programs run traced, traces and events written by hand, and other tools' views of a run.

Fixtures are in the conftest.py files; here are the plain functions and classes behind them. A test imports them as
`from support.truth import read_run`: pytest has this folder's parent on its path (pyproject.toml), and a benchmark is
run with `PYTHONPATH=tests`.
"""
