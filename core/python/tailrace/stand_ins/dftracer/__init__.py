"""DFTracer's package for programs that are not changed (tailrace/dftracer.py): its folder goes onto PYTHONPATH."""
