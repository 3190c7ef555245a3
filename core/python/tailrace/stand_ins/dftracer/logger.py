"""DFTracer's module of the versions 1."""

from tailrace.dftracer import DFTRACER_ENABLE, dft_fn, dftracer

__all__ = ["DFTRACER_ENABLE", "dft_fn", "dftracer"]
