"""Flux: tracing any of its jobs, task by task."""
