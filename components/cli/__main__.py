"""`python -m components.cli VERB`, where `rocelab` is not on PATH."""

import sys

from components.cli.app import main

sys.exit(main())
