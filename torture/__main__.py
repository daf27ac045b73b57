"""`python -m torture`: run the families that are named, or all, and write the scorecard."""

import argparse
import sys
from pathlib import Path

from torture import ROOT
from torture.page import write_page
from torture.run import FAMILIES, run_family


def main() -> int:
    """Return 1 if a promise did not hold."""
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"of {', '.join(FAMILIES)}; else all")
    parser.add_argument("--quick", action="store_true", help="a few attempts of each, in a minute or two")
    parser.add_argument("--out", type=Path, help="where results go; results/torture, or runs/torture-quick")
    a = parser.parse_args()
    if unknown := set(a.families) - set(FAMILIES):
        parser.error(f"no family {', '.join(sorted(unknown))}: choose of {', '.join(FAMILIES)}")
    out = a.out or ROOT / ("runs/torture-quick" if a.quick else "results/torture")
    failed = 0
    for family in a.families or FAMILIES:
        words = run_family(family, out, ROOT / "runs" / "torture", quick=a.quick)
        failed += sum(row["n"] - row["held"] for row in words["ordeals"])
        write_page(out)
    sys.stdout.write(f"{out / 'README.md'}: {failed or 'no'} attempts in which a promise did not hold\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
