"""Tracing for Nextflow: a configuration to include, tailrace.config, which gives each task its tags.

    tailrace run -o run -- nextflow -c "$(tailrace adapter nextflow)" run main.nf

What Nextflow declares is read from its work directory afterwards (importer.py).
"""
