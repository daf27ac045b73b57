"""The page that sets our numbers beside the published ones, row by row, with what was unstated."""

import math
from collections.abc import Iterable
from typing import Any

from unsee import store
from unsee.formulation import SETS, TABLE_1
from unsee.paper.cells import CELLS, DATA, METHODS, Cell, Unit
from unsee.paper.choices import choices
from unsee.paper.claims import Verdict, check, softmax_on_D_f, total_variation
from unsee.paper.reported import PUBLISHED_RUNS, TABLE_2, TABLE_S1, Published
from unsee.paper.rows import Rows, summary
from unsee.paper.scale import Scale
from unsee.scores import PRINTED

NEAR, ERRORS = 0.01, 2.0  # of means: points, and standard errors of their difference
ALONE = 0.02  # of a single run, whose error nobody knows
TIMES = 3.0  # of deviations
DIFFERS = (
    "a mean differs if it is off by more than a point and more than two standard errors, or, of single runs, "
    "by more than two points; a deviation if it is off by more than three times and either is above one point"
)
CAPTION = (
    "Bands in the figure are one standard deviation over the runs. The paper prints no numbers for these "
    "curves: the claims below are what its text says of them. Its "
    "caption defines CE + Fisher by lambda_KL = 0 and the same lambda_f, which is Fisher's line without "
    "Fisher; we read it as lambda_f = 0 with Table S1's lambda_KL, and run the letter of it as CE + RLD "
    "(docs/decisions/0008)."
)
BOUNDS = (
    "The paper gives no bounds: these are ours, and were set when most runs were known (LAB.md). Before, "
    "Fisher prevented a fall that it halved, and a rise was one from 0.1 on."
)
WORDS = {True: "holds", False: "**does not hold**", None: "not run yet"}


def text(rows: Rows, scale: Scale, skipped: list[str]) -> str:
    """Return the whole page as Markdown."""
    verdicts = check(rows)
    parts = ["# The paper, reproduced", _heading(scale, skipped), _count(verdicts), *sections(rows).values()]
    parts += ["## The paper's claims", claims_table(rows), _where_they_fail(verdicts, rows)]
    parts += ["## Unstated, or stated in two ways, and what we chose", _choices_table(rows, scale)]
    return "\n\n".join(filter(None, parts)) + "\n"


def sections(rows: Rows) -> dict[str, str]:
    """Return what the page has on each table and figure, by the names that `reproduce` takes."""
    found = {"table-2": f"## Table 2: Pattern A\n\n{_table_2(rows)}"}
    for name, title in (
        ("figure-3", "Figure 3: the softmax on D_f"),
        ("figure-4", "Figure 4: tile"),
        ("figure-s1", "Figure S1: line"),
        ("figure-s2", "Figure S2: color"),
        ("figure-2", "Figure 2: T"),
    ):
        if (rows.folder.parent / f"{name}.png").exists():
            parts = [f"## {title}", f"![{title}]({name}.png)"]
            parts += [_softmax_table(rows)] if name == "figure-3" else []
            parts += [_final_table(name, rows)] if CELLS[name] and name != "figure-3" else []
            found[name] = "\n\n".join(parts)
    return found | {"table-s1": f"## Table S1: what the paper's search found\n\n{_table_s1(rows)}"}


def _heading(scale: Scale, skipped: list[str]) -> str:
    parts = [
        "Written by `unsee reproduce` from the files in `rows/`: ours beside Hayase, Yasutomi, Katoh "
        "(arXiv 2012.11849). `unsee reproduce all` is all of it. Accuracies are on "
        f"the test sets, after the last epoch; curves use the first {scale.limit:,} images of each set. One "
        "pretrained network for each (data, T); runs are forgetting runs on it, seeds 0, 1, 2 and so on."
    ]
    if scale.quick:
        parts.append(
            "**A quick run: small data, few epochs, one seed. Its numbers say that the code runs, no more.**"
        )
    parts += [f"Skipped: {reason}" for reason in skipped]
    return "\n\n".join(parts)


def _count(verdicts: list[Verdict]) -> str:
    judged = [v.holds for v in verdicts]
    return (
        f"Of {len(judged)} claims of the paper, each judged on one case ([below](#the-papers-claims)), "
        f"{judged.count(True)} hold here, {judged.count(False)} do not, {judged.count(None)} are not run yet."
    )


def _table(heads: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    heads = tuple(heads)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ("---",) * len(heads), *lines))


def table_2_rows(data: str, rows: Rows) -> list[dict[str, Any]]:
    """Return Table 2's rows for one data set: ours and the paper's."""
    unit, found = Unit(data, None), []
    path = rows.folder / f"{unit.name}-pretrained.json"
    if path.exists():
        scores = store.read_json(path)["scores"]
        ours = {name: (scores[name]["class_mean"], None, 1) for name in ("D_f", "D_r")}
        found.append(_row(data, "pretrained", ours))
    for method in METHODS:
        runs = rows.read(Cell(unit, "A", method))
        if runs:
            found.append(_row(data, method, {n: summary(runs, n, "class_mean") for n in ("D_f", "D_r")}))
    return found


def _row(data: str, method: str, ours: dict[str, Any]) -> dict[str, Any]:
    paper = TABLE_2[data].get(method.split(",")[0], {})
    dash = method == "truncation"
    return {
        "data": data,
        "method": method,
        "seeds": ours["D_r"][2],
        "ours": {n: None if dash and n == "D_f" else v[:2] for n, v in ours.items()},
        "paper": {n: str(paper[n]) for n in ours},
    }


def _table_2(rows: Rows) -> str:
    lines = []
    for row in (row for data in DATA for row in table_2_rows(data, rows)):
        cells = [row["data"], row["method"].replace("RLD", "RLD (1-9)")]
        for name in ("D_f", "D_r"):
            ours = row["ours"][name]
            cells += [str(Published(*ours)) if ours else "--", row["paper"][name]]
        lines.append([*cells, f"{row['seeds']}"])
    note = "D_r is the mean over the classes 1-9, as in the paper; ± is the standard deviation over the runs."
    cells = [Cell(Unit(data, None), "A", method) for data in DATA for method in METHODS]
    table = _table(("data", "method", "D_f: ours", "paper", "D_r: ours", "paper", "runs"), lines)
    return "\n\n".join(filter(None, [table, f"{note} {_of_what(cells, rows)}".rstrip(), _differences(rows)]))


def _of_what(cells: Iterable[Cell], rows: Rows) -> str:
    """Say on how many images the runs were judged, and how long they were; as the rows themselves have it."""
    known = [store.read_json(path) for cell in cells if (path := rows.path(cell)).exists()]
    scores = [run["scores"] for row in known for run in row["seeds"].values()]
    sizes = {name: {s[name]["n"] for s in scores if "n" in s.get(name, {})} for name in SETS}
    counts = [f"{PRINTED[name]} {_one_or_all(ns)}" for name, ns in sizes.items() if ns]
    recipes = [(k["epochs"], k["batch_size"]) for row in known if "epochs" in (k := row["key"])]
    if not counts or not recipes:
        return ""
    epochs, batches = (_one_or_all(set(values)) for values in zip(*recipes, strict=True))
    return f"Images: {', '.join(counts)}. {epochs} epochs in batches of {batches}."


def _one_or_all(values: set[int]) -> str:
    return " or ".join(f"{value:,}" for value in sorted(values))


def _differences(rows: Rows) -> str:
    """Say in words where a mean or a deviation is not the paper's."""
    said, compared = [], 0
    for data in DATA:
        known = table_2_rows(data, rows)
        ours, seeds = ({row["method"]: row[what] for row in known} for what in ("ours", "seeds"))
        for method in TABLE_2[data].keys() & ours.keys():
            pairs = [(name, ours[method][name], value) for name, value in TABLE_2[data][method].items()]
            runs = seeds[method]
            said += [words for pair in pairs for words in _differs(f"{method} on {data}", *pair, runs)]
            compared += 1
    if not compared:
        return ""
    if not said:
        return f"Nothing here differs from the paper: {DIFFERS}."
    why = [f"({DIFFERS[0].upper()}{DIFFERS[1:]}.)"]
    if tried := _link(rows, "What was tried to explain it, on fashion-mnist, is in [readings](readings.md)."):
        why.append(tried)
    if any("cifar-10" in difference for difference in said):
        why.append("How our network of cifar-10, and its rows here, were made: docs/decisions/0029.")
    return " ".join(["Where we differ:", *sorted(said), *why])


def _link(rows: Rows, words: str) -> str:
    return words if (rows.folder.parent / "readings.md").exists() else ""


def _differs(run: str, name: str, ours: tuple[float, Any] | None, paper: Published, runs: int) -> list[str]:
    if ours is None or paper.mean is None:
        return []
    said, (mean, std) = [], ours
    error = math.hypot((paper.std or 0.0) / PUBLISHED_RUNS**0.5, (std or 0.0) / runs**0.5)
    if abs(mean - paper.mean) > (max(NEAR, ERRORS * error) if error else ALONE):
        more = "more" if mean > paper.mean else "less"
        verb = "has" if run.startswith("pretrained") else "leaves"
        said.append(f"{run} {verb} {more} of {name}, {mean:.3f} where the paper has {paper}.")
    if std and paper.std and not 1 / TIMES <= std / paper.std <= TIMES and max(std, paper.std) > NEAR:
        more = "more" if std > paper.std else "less"
        said.append(f"{run} varies {more} on {name}, by {std:.3f} where the paper has {paper.std:.3f}.")
    return said


def _final_table(name: str, rows: Rows) -> str:
    lines = []
    for unit in dict.fromkeys(cell.unit for cell in CELLS[name]):
        path = rows.folder / f"{unit.name}-pretrained.json"
        if path.exists():
            scores = store.read_json(path)["scores"]
            lines.append(
                [unit.data, "", "pretrained", *(f"{scores[n]['accuracy']:.3f}" for n in SETS), "", ""]
            )
        for cell in (cell for cell in CELLS[name] if cell.unit == unit):
            if runs := rows.read(cell):
                lost = sum("diverged" in run for run in runs.values())
                count = f"{len(runs)}, {lost} diverged" if lost else f"{len(runs)}"
                found = {n: summary(runs, n) for n in SETS}
                score = TABLE_1[cell.pattern].score({n: mean for n, (mean, _, _) in found.items()})
                values = [str(Published(mean, std)) for mean, std, _ in found.values()]
                lines.append([unit.data, cell.pattern, cell.line, *values, f"{score:.3f}", count])
    heads = ("data", "pattern", "line", *(PRINTED[n] for n in SETS), "least", "runs")
    note = (
        "Least: of the accuracies that the pattern requires, by which the paper's search chose (Table 1: "
        "D_r, D_f,clean and D_r,extra in B; D_r, D_f and D_r,extra in C)."
    )
    return f"{_table(heads, lines)}\n\n{note} {CAPTION} {_of_what(CELLS[name], rows)}".rstrip()


def _softmax_table(rows: Rows) -> str:
    found = softmax_on_D_f(rows)
    scratch = found.get("trained on D_r")
    lines = []
    for label, (mean, runs) in found.items():
        far = "" if scratch is None else f"{total_variation(mean, scratch[0]):.3f}"
        lines.append([label, *(f"{p:.3f}" for p in mean), far, f"{runs}"])
    heads = ("", *map(str, range(10)), "to trained on D_r", "runs")
    note = (
        "The mean softmax over the test images of D_f, class 0 of fashion-mnist, and over the runs; then its "
        "total variation distance, half the sum of absolute differences."
    )
    return f"{_table(heads, lines)}\n\n{note} {_of_what(CELLS['figure-3'], rows)}".rstrip()


def _table_s1(rows: Rows) -> str:
    lines = [
        [*name.split("/"), f"{lr:.3g}", f"{lambda_kl:.3g}", f"{lambda_f:.3g}"]
        for name, (lr, lambda_kl, lambda_f) in TABLE_S1.items()
    ]
    table = _table(("data", "T", "pattern", "lr", "lambda_KL", "lambda_f"), lines)
    parts = [table, "As published, to three digits; the lines above were run with these values."]
    folder = rows.folder.parent.parent / "search"
    known = store.read_json(folder / "search.json") if (folder / "README.md").exists() else None
    if known and known["recipe"]["name"] == "tuned from fashion-mnist/tile/B":
        first, best = known["trials"][0], known["recipe"]
        found = f"lr {best['lr']:.3g}, lambda_KL {best['lambda_kl']:.3g}, lambda_f {best['lambda_f']:.3g}"
        parts.append(
            f"Our own search on fashion-mnist, tile, B ([how](../search/README.md)) found {found}: on "
            f"validation data the least is {known['score']:.3f}, with Table S1's values {first['score']:.3f}."
        )
    return "\n\n".join(parts)


def claims_table(rows: Rows) -> str:
    """Return the claims with their criteria and verdicts as a table in Markdown."""
    lines = [[v.claim.words, v.claim.case, v.claim.criterion, WORDS[v.holds], v.figures] for v in check(rows)]
    return _table(("claim", "case", "holds if", "here", "by"), lines)


def _where_they_fail(verdicts: list[Verdict], rows: Rows) -> str:
    failed: dict[str, list[str]] = {}
    for v in verdicts:
        if v.holds is False:
            failed.setdefault(v.claim.words, []).append(v.claim.case)
    if not failed:
        return ""
    said = ". ".join(f"*{words}*, on {'; '.join(cases)}" for words, cases in failed.items())
    tried = _link(rows, " What the paper leaves open was tried one by one: [readings](readings.md).")
    grown = " Our networks of cifar-10 were begun at half the size (docs/decisions/0029)."
    here = grown if any(DATA[1] in case for cases in failed.values() for case in cases) else ""
    return f"Not seen here: {said}.{tried}{here}\n\n{BOUNDS}"


def _choices_table(rows: Rows, scale: Scale) -> str:
    table = _table(("what", "in the paper", "here"), choices(rows, scale))
    return f"{table}\n\nNumbers in brackets: the reasons, in docs/decisions."
