"""Tracing for Makeflow: a wrapper of its commands.

    tailrace run -o run -- makeflow --wrapper "$(tailrace adapter makeflow) %%" flow.mf

What Makeflow declares is read from `makeflow_viz -D json` (importer.py).
"""
