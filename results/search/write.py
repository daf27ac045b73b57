r"""The search on Fashion-MNIST with tiles, Pattern B, as a page.

From the repository's root, after `unsee data fetch fashion-mnist`:

    unsee reproduce figure-4 --data fashion-mnist --seeds 1 --out runs/mine  # the network, in runs/paper
    unsee tune runs/paper/fashion-mnist-tile/model.safetensors \
        --memory runs/paper/fashion-mnist-tile/memory.safetensors --pattern B \
        --data fashion-mnist --class 0 --T tile --recipe fashion-mnist/tile/B --minutes 55 --out runs/search
    unsee forget runs/paper/fashion-mnist-tile/model.safetensors \
        --memory runs/paper/fashion-mnist-tile/memory.safetensors --pattern B \
        --data fashion-mnist --class 0 --T tile --recipe runs/search/recipe.json --out runs/searched
    python results/search/write.py

The second leaves search.json, recipe.json and search.png, the third the run.json of the recipe that was
found, forgotten with on all of D_f and judged on the test sets.
"""

from pathlib import Path

from unsee import store
from unsee.formulation import TABLE_1

HERE = Path("results/search")
LOOPS = 200  # of the paper's protocol
NAMES = {"D_r": "D_r", "D_f": "D_f", "D_f_clean": "D_f,clean", "D_r_extra": "D_r,extra"}


def page(search: dict, run: dict, papers: dict) -> str:
    """Return the page: of the search, the run with its recipe, and one with Table S1's, on one network."""
    assert search["of"]["model"] == run["inputs"]["model"] == papers["network"]
    trials = search["trials"]
    first, best = (
        trials[0],
        max((trial for trial in trials if trial["state"] == "complete"), key=lambda trial: trial["score"]),
    )
    count = {state: sum(trial["state"] == state for trial in trials) for state in ("pruned", "diverged")}
    protocol, minutes, of = LOOPS * first["samples"], search["seconds"] / 60, search["of"]
    rows = [
        f"| {what} (trial {trial['trial']}) | {trial['score']:.3f} | {trial['lambda_f']:.3g} | "
        f"{trial['lambda_kl']:.3g} | {trial['lr']:.3g} |"
        for what, trial in (("Table S1's values", first), ("found", best))
    ]
    gain = best["score"] - first["score"]
    share = search["samples"] / protocol
    lines = [
        "# The search, on Fashion-MNIST with tiles, Pattern B",
        __doc__.split("\n", 2)[2].strip(),
        "The score is the least of the pattern's accuracies on validation data, the mean over "
        f"{of['folds']} folds. The search starts at Table S1's values, so that it cannot end below them.",
        "\n".join(["| | score | lambda_f | lambda_KL | lr |", "|---|---|---|---|---|", *rows]),
        f"{len(trials)} trials, of which {count['pruned']} were given up before their end and "
        f"{count['diverged']} diverged, took {minutes:.0f} minutes, one after the other, with "
        f"torch.get_num_threads() = {of['threads']}, and passed {search['samples']:,} samples. The paper's "
        f"protocol, {LOOPS} loops, each over {of['folds']} folds of {of['recipe']['epochs']} epochs, passes "
        f"{protocol:,}: the search took {share:.1%} of that. (Were a loop one division 80 / 20 alone, it "
        f"would be {of['folds'] * share:.1%}.)",
        "![Score over trials, importances, slices](search.png)",
        f"The gain over the paper's values is {gain:.3f}; the deviation of the best over its folds is "
        f"{search['deviation']:.3f}.",
        "With what was found, on all of D_f and judged on the test sets ([`run.json`](run.json)):",
        _table(run["scores"], papers),
    ]
    return "\n\n".join(lines) + "\n"


def _table(scores: dict, papers: dict) -> str:
    sets = scores["sets"]
    before = [f"{papers[name]:.3f}" for name in sets]
    least = min(papers[name] for name in TABLE_1["B"].arrows)
    after = [f"{row['accuracy']:.3f}" for row in sets.values()]
    sizes = [f"{row['n']:,}" for row in sets.values()]
    return "\n".join(
        [
            f"| | {' | '.join(NAMES[name] for name in sets)} | least |",
            "|---" * (len(sets) + 2) + "|",
            f"| Table S1's values ([readings](../paper/readings.md)) | {' | '.join(before)} | {least:.3f} |",
            f"| found | {' | '.join(after)} | {scores['score']:.3f} |",
            f"| n | {' | '.join(sizes)} | |",
        ]
    )


def main() -> None:
    """Write README.md from the files beside it."""
    words = (store.read_json(HERE / name) for name in ("search.json", "run.json"))
    papers = store.read_json(HERE.parent / "paper" / "readings.json")["B: as chosen"]
    store.write_bytes(HERE / "README.md", page(*words, papers).encode())


if __name__ == "__main__":
    main()
