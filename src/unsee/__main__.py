"""`python -m unsee` is `unsee`."""

import sys

from unsee.cli import main

sys.exit(main())
