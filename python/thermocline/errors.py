"""Exceptions: one class per family of errors, all of them :class:`ThermoclineError`.

Every message names the place and the remedy. Words like ``--tier`` in it are options of the
command line; the argument of the same name is meant.
"""

__all__ = [
    "ClusterError",
    "ConfigurationError",
    "DeviceError",
    "FileError",
    "LedgerError",
    "ThermoclineError",
    "TraceError",
]


class ThermoclineError(Exception):
    """The base of all errors of this package."""


class ConfigurationError(ThermoclineError, ValueError):
    """A policy, parameter, size, tier or option that cannot be."""


class TraceError(ThermoclineError, ValueError):
    """A trace that cannot be read or compiled; the message names file, line and reason."""


class DeviceError(ThermoclineError, ValueError):
    """A device that cannot be, that refuses a request, or that is worn out."""


class LedgerError(ThermoclineError):
    """The Ledger refuses an action of a policy; the message names access, page and action."""


class FileError(ThermoclineError, OSError):
    """A file other than a trace that cannot be read or written, or that is not as expected."""


class ClusterError(ThermoclineError):
    """A point of a sweep that the cluster could not run, however often it was tried."""
