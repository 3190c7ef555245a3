"""DFTracer's module of the versions 2."""

import tailrace.dftracer
from tailrace.dftracer import __all__ as __all__

globals().update({name: getattr(tailrace.dftracer, name) for name in __all__})
