"""What `unsee bench` does: measure, write down, and set beside the limits."""

import argparse
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console

from unsee.bench import page
from unsee.command_line.telling import print_json
from unsee.errors import UsageError


def bench(a: argparse.Namespace) -> int:
    """`unsee bench`: leaves a result for each name, and a page of all; exits with 1 if a limit is not met."""
    names, out = page.chosen(a.names), Path(a.out)
    if a.threads < 1:
        raise UsageError("at least one thread", f"{a.threads}", "leave --threads out")
    console = Console(quiet=a.json, highlight=False)
    before, results = torch.get_num_threads(), []
    torch.set_num_threads(a.threads)
    try:
        for name in names:
            console.print(f"{page.TITLES[name]} ...")
            words = f" --threads {a.threads}" if a.threads > 1 else ""
            command = f"unsee bench {name}{' --quick' if a.quick else ''}{words}"
            result = page.BENCHES[name](command, quick=a.quick)
            result.save(out / "results")
            results.append(result)
            for limit in result.limits:
                mark = "✓" if limit.met else "✗"
                console.print(f"  {mark} {limit.what}: {limit.found:g}, at most {limit.most:g}", markup=False)
    finally:
        torch.set_num_threads(before)
    written = page.write(out)
    if a.json:
        print_json([asdict(result) for result in results])
    console.print(f"Written: {written}", markup=False)
    return 0 if all(limit.met for result in results for limit in result.limits) else 1
