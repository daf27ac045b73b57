"""The verbs as a user calls them."""

from unsee.cli import main


def run(*words):
    return main([str(word) for word in words])


def forget(case, out, *more, pattern="B"):
    folder, old, four = case
    words = [
        "forget",
        old,
        *four,
        "--memory",
        folder / "memory.safetensors",
        "--pattern",
        pattern,
        "--out",
        out,
    ]
    paper = ("--recipe", f"fashion-mnist/{'tile' if pattern == 'B' else 'line'}/{pattern}")
    return run(*words, *paper, "--batch-size", 16, "--lr", "1e-3", "--lambda-kl", "1e3", *more)
