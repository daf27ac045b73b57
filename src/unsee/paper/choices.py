"""What the paper leaves unstated or states in two ways, and what was chosen here."""

from unsee.paper.cells import DATA, Cell, Unit
from unsee.paper.rows import Rows
from unsee.paper.scale import Scale


def choices(rows: Rows, scale: Scale) -> list[tuple[str, str, str]]:
    """Return each as what, how it stands in the paper, and what it is here; numbers are of decisions."""
    recipe = scale.recipe(Cell(Unit(DATA[0], None), "A", "RLD"))
    also = [d for d in DATA if rows.read(Cell(Unit(d, None), "A", "RLD, Fisher over D_r"))]
    unstated = {
        "batch size": f"128 for pretraining, {recipe.batch_size} for forgetting",
        "epochs of pretraining at which learning rate, momentum 0.9": _schedule(Unit(DATA[0], "tile"), scale),
        "the same, Fashion-MNIST without T": _schedule(Unit(DATA[0], None), scale),
        "the same, CIFAR-10": f"{_schedule(Unit(DATA[1], None), scale)} (0029)",
        "epochs and momentum of B and C, but in the search": f"{recipe.epochs} and 0.9, as in the search",
        "epochs and momentum of Pattern A": f"{recipe.epochs} and 0.9, as in B and C",
        "L_c and L_f of a batch, sums or means": "means, so that the weights do not hang on its size",
        "labels of RLD in B and C": "B: the classes other than 0; C: all (0005)",
        "when labels of RLD are drawn": "anew at each step (0005)",
        "RND's network": "one for each run, drawn as the network itself is, its logits as they are (0006)",
        "where tiles lie": "squares of 4 x 4 from 2 on, every 8 (0009)",
        "whether the last of ten layers is one of them": "it is: nine of d x d, the last of d x 10 (0010)",
        "validation": "10 % of D_r, held out before pretraining (0012)",
        "input scaling": "standardised per channel",
    }
    in_two_ways = {
        "Fisher over what, in Pattern A: D by the formula, no class 0 by the experiments": "over D"
        + (f"; over D_r too on {', '.join(also)}" if also else "")
        + " (0002)",
        "the same in B and C": "over D_r: the memory over D less D_f's share (0002)",
        "the activation, continuous by its name, jumps as printed beyond s g x = 1": "as printed: with the "
        "continuous form tile C of Table S1 diverges (0004)",
        "Figure 4's lines, the caption against their names": "by name; the caption's is CE + RLD (0008)",
        "Figure 3's training from scratch, on D_f by the text": "on D_r: no class 0 is what it is to have",
    }
    lines = [(what, "unstated", here) for what, here in unstated.items()]
    return lines + [(what, "in two ways", here) for what, here in in_two_ways.items()]


def _schedule(unit: Unit, scale: Scale) -> str:
    if scale.pretraining_epochs:
        return f"{scale.pretraining_epochs} at 0.01"
    whole = _listed(unit.pretraining)
    return f"with images of half the size {_listed(unit.at_half)}, then {whole}" if unit.at_half else whole


def _listed(pretraining: tuple[tuple[int, float], ...]) -> str:
    *parts, last = (f"{epochs} at {lr:g}" for epochs, lr in pretraining)
    return f"{', '.join(parts)} and {last}" if parts else last
