"""Thermocline: the laboratory for hotness-aware caching in hybrid storage.

Replay a trace through every published policy, or one of your own, and get figures as Arrow tables.

Examples
--------
>>> import thermocline as tc
>>> trace = tc.Trace.open("testdata/pgbench/pgbench.csv.zst", page_size="8KiB")
>>> found = tc.compare(trace, ["hat", "face-gsc", "lru"], {"ram": "2%", "flash": ["2x", "4x"]})
>>> found.table.column("policy").to_pylist()
['hat', 'face-gsc', 'lru', 'hat', 'face-gsc', 'lru']
"""

from importlib.metadata import version as _version

from thermocline import corpus, datasets
from thermocline._options import HierarchyOptions, Size, Value
from thermocline._progress import Progress
from thermocline.cache import Accessed, Cache
from thermocline.catalogue import (
    Device,
    Entry,
    Parameter,
    buffers,
    devices,
    drives,
    identifiers,
    policies,
)
from thermocline.errors import (
    ClusterError,
    ConfigurationError,
    DeviceError,
    FileError,
    LedgerError,
    ThermoclineError,
    TraceError,
)
from thermocline.identifier import Identifier
from thermocline.lab import buffer, compare, hot, mrc, plan, simulate
from thermocline.policy import (
    Action,
    CacheSetup,
    CompiledEvictionPolicy,
    Copy,
    Drop,
    EvictionPolicy,
    Functions,
    Policy,
    Serve,
    Setup,
    TwoTier,
)
from thermocline.results import (
    BufferComparison,
    Comparison,
    Identification,
    MissRatios,
    Plan,
    Result,
    Run,
    SweepResult,
)
from thermocline.sweeping import sweep
from thermocline.trace import Trace
from thermocline.tuning import Tuning, tune

__version__ = _version("thermocline")

__all__ = [
    "Accessed",
    "Action",
    "BufferComparison",
    "Cache",
    "CacheSetup",
    "ClusterError",
    "Comparison",
    "CompiledEvictionPolicy",
    "ConfigurationError",
    "Copy",
    "Device",
    "DeviceError",
    "Drop",
    "Entry",
    "EvictionPolicy",
    "FileError",
    "Functions",
    "HierarchyOptions",
    "Identification",
    "Identifier",
    "LedgerError",
    "MissRatios",
    "Parameter",
    "Plan",
    "Policy",
    "Progress",
    "Result",
    "Run",
    "Serve",
    "Setup",
    "Size",
    "SweepResult",
    "ThermoclineError",
    "Trace",
    "TraceError",
    "Tuning",
    "TwoTier",
    "Value",
    "__version__",
    "buffer",
    "buffers",
    "compare",
    "corpus",
    "datasets",
    "devices",
    "drives",
    "hot",
    "identifiers",
    "mrc",
    "plan",
    "policies",
    "simulate",
    "sweep",
    "tune",
]
