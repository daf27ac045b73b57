"""A table: a network that leans on a leaked identifier, and one that leans on people's sex; both unlearn it.

    python examples/leaked_column.py                         on the rows in the package, in about a minute
    python examples/leaked_column.py --data adult            on all of Adult (`unsee data fetch adult` before)

The identifier. The people who earn over 50,000 dollars came from two files. One of them numbered its accounts
beyond where the other ends, so that a high number tells the class (Pattern C). D_f: the rows of that file;
D_f,clean: the same with account numbers like everyone's; T puts a number of that range onto a row.

The attribute. Nobody planted anything: the network answers some people otherwise as soon as their sex is
another one. D_f,clean: rows with the sex made constant; T draws it anew. No memory is used, since the memory
of such a network remembers what it makes of the sex.
"""

import argparse
from pathlib import Path

from judging import Telling

from unsee import FourDatasets, FourSets, Validation, columns, forget, networks, remember, sources, train
from unsee.sources import TrainTest


def identifier(told: Telling, data: TrainTest, epochs: int) -> None:
    """Plant the leak, train, remember, forget."""
    told.say("1. A leaked identifier: of those who earn more, 30 % have account numbers beyond all others.")
    data = TrainTest(*(columns.numbered(part, "account") for part in (data.train, data.test)))
    T = columns.leaked(data.train, "account")
    four = FourDatasets.of_class(data, ">50K", T, share=0.3)
    start = networks.network("table", four.pretraining)
    old = train(start, four.pretraining, epochs=epochs, lr=0.01, batch_size=32, progress=True).model
    memory = remember(old, four.pretraining, sketch=32)
    result = forget(old, four.request("C"), memory, validation=four.validation, progress=True)
    told.judge("identifier", "C", four, old, result, T)


def attribute(told: Telling, data: TrainTest, epochs: int) -> None:
    """Train on the rows as they are, and forget the sex, of which all rows tell."""
    told.say("2. A sensitive attribute: how many answers hang on the sex, all else being equal?")
    T, without = columns.resampled(data.train, "sex"), columns.constant(data.train, "sex")
    start = networks.network("table", data.train)
    old = train(start, data.train, epochs=epochs, lr=0.01, batch_size=32, progress=True).model
    rest, known = data.train.split(0.3)  # some rows that are still at hand
    rest, held = rest.split(0.1)
    test_rest, test_known = data.test.split(0.3)
    sets = [
        FourSets(D_r, T(without(rows)).with_(name="D_f"), without(rows).with_(name="D_f_clean"), T(D_r))
        for D_r, rows in ((rest, known), (test_rest, test_known))
    ]
    four = FourDatasets(*sets, Validation(held, T(held)), T)
    result = forget(old, four.request("C"), validation=four.validation, progress=True)
    told.judge("sex", "C", four, old, result, columns.set_to(data.train, "sex", "Female"))


def main(folder: Path, name: str, epochs: int) -> None:
    """Tell both parts."""
    told, data = Telling(folder, f"python examples/leaked_column.py --data {name}"), sources.open_source(name)
    identifier(told, data, epochs)
    attribute(told, data, epochs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A leaked identifier and a sensitive attribute of a table.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/leaked-column"))
    parser.add_argument("--data", default="bundled-adult", help="bundled-adult or adult")
    parser.add_argument("--epochs", type=int, default=10, help="passes of training (10; 2 will do for adult)")
    given = parser.parse_args()
    main(given.folder, given.data, given.epochs)
