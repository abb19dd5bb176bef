"""Runs the store commands: `python -m storage`."""

import sys

from storage.cli import main

sys.exit(main())
