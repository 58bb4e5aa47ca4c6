"""The command line, in the process of the interpreter."""

import signal
import sys

from thermocline import _thermocline

__all__ = ["main"]


def main() -> int:
    """Run the command line of ``sys.argv`` and return its exit status.

    Returns
    -------
    int
        0, or 1 after an error, or 2 for a command line that is not understood.
    """
    # The interpreter would note an interrupt and wait for the command to end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _thermocline.run_command_line(sys.argv)
