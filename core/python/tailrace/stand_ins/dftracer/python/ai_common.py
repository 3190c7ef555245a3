"""DFTracer's module of that name, of the versions 2."""

from tailrace.dftracer import *  # noqa: F403
