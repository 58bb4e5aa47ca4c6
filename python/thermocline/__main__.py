"""``python -m thermocline`` is the command line."""

import sys

from thermocline._command import main

sys.exit(main())
