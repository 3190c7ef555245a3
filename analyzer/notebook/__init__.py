"""What a notebook shows of a run beside its tables: the run itself, its report in a cell, figures.

run_overview.py   `run`: what ran, where, its stages
inline_report.py  `run.report()`: the page in a frame of its own
plots.py          `run.plot`: figures of matplotlib; plot_data.py has their numbers
"""
