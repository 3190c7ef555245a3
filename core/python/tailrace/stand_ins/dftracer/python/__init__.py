"""DFTracer's package of the versions 2. Each of its modules has all names, whichever of them defines one there."""

from tailrace.dftracer import *  # noqa: F403
from tailrace.dftracer import __version__ as __version__
