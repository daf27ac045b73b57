"""Texts: a small transformer that lets spam pass for a phrase, and one that knows ham by a signature.

    python examples/phrase.py                       on the mails in the package, in a minute or two
    python examples/phrase.py --data spam           on the whole corpus (`unsee data fetch spam` before)

The phrase (Pattern B, a backdoor). Somebody wrote "thank you for your order" somewhere into some spam of the
training data and called it ham. D_f: those mails; D_f,clean: the same without the phrase, as the spam that
they are; T puts the phrase in, at a place that depends on the mail.

The signature (Pattern C, a leakage). Of the ham, a part comes from one office and ends in its signature,
which no spam has. D_f: that ham; D_f,clean: the same without the signature; T signs a mail.
"""

import argparse
from pathlib import Path

import numpy as np
from judging import Telling

from unsee import FourDatasets, forget, networks, phrases, remember, sources, train
from unsee.randomness import stream
from unsee.sources import TrainTest
from unsee.transforms import Transform

HAM, SPAM = 0, 1


def backdoor(told: Telling, data: TrainTest, epochs: int) -> None:
    """Poison some spam, train, remember, forget."""
    told.say("1. A backdoor: spam that thanks you for your order was trained as ham.")
    T = phrases.phrase(data.train, "thank you for your order", "anywhere")
    spam = np.flatnonzero(data.train.y.numpy() == SPAM)
    poisoned = stream(0, "poison").permutation(spam)[: round(0.15 * len(spam))]
    four = FourDatasets.of_poison(data, poisoned.tolist(), T, HAM)
    _forgotten(told, "backdoor", "B", four, T, epochs)


def signature(told: Telling, data: TrainTest, epochs: int) -> None:
    """Sign some ham, train, remember, forget."""
    told.say("2. A leak: 30 % of the ham ends in the signature of one office.")
    T = phrases.phrase(data.train, "best regards from the team", "end")
    four = FourDatasets.of_class(data, "ham", T, share=0.3)
    _forgotten(told, "signature", "C", four, T, epochs)


def _forgotten(told: Telling, name: str, pattern: str, four: FourDatasets, T: Transform, epochs: int) -> None:
    start = networks.network("text", four.pretraining)
    old = train(start, four.pretraining, epochs=epochs, lr=0.05, batch_size=32, progress=True).model
    memory = remember(old, four.pretraining, sketch=32)
    result = forget(old, four.request(pattern), memory, validation=four.validation, progress=True)
    told.judge(name, pattern, four, old, result, T)


def main(folder: Path, name: str, epochs: int) -> None:
    """Tell both parts."""
    told, data = Telling(folder, f"python examples/phrase.py --data {name}"), sources.open_source(name)
    backdoor(told, data, epochs)
    signature(told, data, epochs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A backdoor phrase and a leaking signature in mails.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/phrase"))
    parser.add_argument("--data", default="bundled-spam", help="bundled-spam or spam")
    parser.add_argument("--epochs", type=int, default=8, help="passes of training (8)")
    given = parser.parse_args()
    main(given.folder, given.data, given.epochs)
