"""DFTracer's module of the versions 1."""

from tailrace.dftracer import *  # noqa: F403
