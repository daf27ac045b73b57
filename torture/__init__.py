"""Torture: what is promised of reliability, done to it many times over. Not part of the package.

    python -m torture [FAMILY ...] [--quick]

writes results/torture/<family>.json and the scorecard in results/torture/README.md. Stopped, the same command
goes on. It uses what the tests build, and runs on one core.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(1, str(ROOT / "tests"))
