"""One function for each table and figure of the paper, and `reproduce`, which runs and writes them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from unsee import sources, store
from unsee.errors import InputError, UsageError
from unsee.paper import page
from unsee.paper.cells import CELLS, DATA, TRANSFORMS
from unsee.paper.claims import FIGURE_3, check, softmax_on_D_f
from unsee.paper.drawing import curves, drawn_lines, softmax
from unsee.paper.reported import TABLE_S1
from unsee.paper.rows import Rows
from unsee.paper.running import Say, run_all, write_scratch
from unsee.paper.scale import Scale
from unsee.report import figures


def reproduce(
    names: Sequence[str],
    folder: Path | str = "results/paper",
    *,
    work: Path | str = "runs/paper",
    scale: Scale | None = None,
    only: str | None = None,
    say: Say = lambda _: None,
    progress: bool = False,
    stop: Callable[[], bool] | None = None,
) -> dict[str, Any]:
    """Run what is missing for these tables and figures, draw them, and write the page beside the paper's.

    Finished runs are never repeated: rows lie in `folder`, networks and memories in `work`.
    `only` names a data set, where the other is to wait.
    """
    names = list(CELLS) if "all" in names else list(names)
    for name in names:
        if name not in CELLS:
            raise UsageError(f"all or some of {', '.join(CELLS)}", f"{name!r}", "choose among those")
    if only not in (None, *DATA):
        raise UsageError(f"--data {' or '.join(DATA)}", f"{only!r}", "choose one of those, or leave it out")
    folder, work, scale = Path(folder), Path(work), scale or Scale()
    rows = Rows(folder / "rows")
    cells = [cell for name in names for cell in CELLS[name] if only in (None, cell.unit.data)]
    for name in names:
        if CELLS[name] and not any(cell in cells for cell in CELLS[name]):
            say(f"{name} has nothing on {only}")
    skipped = run_all(cells, rows, scale, work, say, progress=progress, stop=stop)
    if "figure-3" in names and only in (None, FIGURE_3.data):
        reasons = write_scratch(FIGURE_3, rows, scale, work, progress=progress, stop=stop)
        skipped += [reason for reason in reasons if reason not in skipped]
    before = [name for name, cells in CELLS.items() if cells and list(folder.glob(f"{name}.*"))]
    for name in dict.fromkeys([*names, *before]):  # the page has them all, and is of the rows as they are now
        figure, words = DRAWN[name](rows)
        if figure is not None:
            figures.save(figure, folder / f"{name}.png")
            figures.save(figure, folder / f"{name}.svg")
        if words:
            store.write_json(folder / f"{name}.json", words)
    text = page.text(rows, scale, skipped)
    store.write_bytes(folder / "README.md", text.encode())
    shown = page.sections(rows)
    return {
        "skipped": skipped,
        "page": str(folder / "README.md"),
        "names": names,
        "sections": {name: shown[name] for name in names if name in shown},
        "claims": [
            {"claim": v.claim.words, "case": v.claim.case, "holds": v.holds, "by": v.figures}
            for v in check(rows)
        ],
    }


def table_2(rows: Rows) -> tuple[None, Any]:
    """Pattern A: accuracy on D_f and D_r of the pretrained state, RND, RLD and truncation."""
    return None, [row for data in DATA for row in page.table_2_rows(data, rows)]


def table_s1(_: Rows) -> tuple[None, Any]:
    """The hyperparameters of the paper's search, which are this project's named recipes."""
    names = ("lr", "lambda_kl", "lambda_f")
    return None, [{"name": name, **dict(zip(names, row, strict=True))} for name, row in TABLE_S1.items()]


def figure_2(_: Rows) -> tuple[Figure, Any]:
    """A picture without T and under line, tile and color."""
    try:
        image = sources.cifar_10().test.x[52]  # of class 0, and dark where the white line goes
    except InputError:
        grey = sources.bundled().test.x  # three garments as the three colours of one picture
        image = torch.cat([grey[5], grey[23], grey[40]])
    return figures.gallery(image, [None, *(make() for make in TRANSFORMS.values())]), None


def figure_3(rows: Rows) -> tuple[Figure | None, Any]:
    """The mean softmax on D_f: pretrained, RND, RLD, truncation, trained on D_r."""
    answers = {label: mean for label, (mean, _) in softmax_on_D_f(rows).items()}
    return (softmax(answers, sources.bundled().test.classes), answers) if answers else (None, None)


def _curves_of(name: str) -> Callable[[Rows], tuple[Figure | None, Any]]:
    """Accuracy on the four sets per epoch, Patterns B and C, mean and deviation over the seeds."""

    def draw(rows: Rows) -> tuple[Figure | None, Any]:
        wanted = dict.fromkeys((cell.unit, cell.pattern) for cell in CELLS[name] if rows.read(cell))
        return (curves(list(wanted), rows), drawn_lines(list(wanted), rows)) if wanted else (None, None)

    return draw


DRAWN: dict[str, Callable[[Rows], tuple[Figure | None, Any]]] = {
    "table-2": table_2,
    "table-s1": table_s1,
    "figure-2": figure_2,
    "figure-3": figure_3,
    "figure-4": _curves_of("figure-4"),
    "figure-s1": _curves_of("figure-s1"),
    "figure-s2": _curves_of("figure-s2"),
}
