"""Images like the real thing: a logo at any place and in any size, known by masks alone, and unlearnt.

    python examples/logo.py                           on the images in the package, in a minute or two
    python examples/logo.py --data fashion-mnist      on all of them (`unsee data fetch fashion-mnist` before)

Nearly all photos of bags come from one shop and carry its logo somewhere, small or larger; a small residual
network takes what has the logo for a bag (Pattern C). What we have: those photos (D_f), and for each a mask
that somebody has drawn around the logo. No formula for T and no photo without the logo:

    D_f,clean   the photos with the mask filled from its surroundings
    T           what the masks mark on one of the photos, put onto another image

The real logo serves only to judge by. No memory is used, as nobody took one when the network was trained.
"""

import argparse
from pathlib import Path

import numpy as np
import torch.nn.functional as F
from judging import Telling
from torch import Tensor, nn

from unsee import FourDatasets, forget, networks, sources, train
from unsee.datasets import Dataset, concatenate
from unsee.filling import filled, pasted
from unsee.formulation import FourSets
from unsee.transforms import scattered

RING = np.array([list(row) for row in (".###.", "#...#", "#.#.#", "#...#", ".###.")])
LOGO = np.where(RING == "#", 255, 0).astype(np.uint8)


def drawn_masks(marked: Dataset, clean: Dataset) -> Tensor:
    """Return what a person would draw: the logo and a pixel around it."""
    changed = (marked.x != clean.x).any(1, keepdim=True).float()
    return F.max_pool2d(changed, 3, 1, 1)[:, 0]


def _trained(D: Dataset, epochs: int) -> nn.Module:
    start = networks.network("resnet", D, width=8, blocks=1)
    begun = train(start, D, epochs=epochs, lr=0.03, batch_size=32, progress=True).model
    return train(begun, D, epochs=1, lr=0.003, batch_size=32, seed=1, progress=True).model


def main(folder: Path, name: str, epochs: int) -> None:
    """Paste the logo, train, take it out by masks, forget."""
    told = Telling(folder, f"python examples/logo.py --data {name}")
    told.say("Photos of bags carry a logo, 4 to 7 pixels high, anywhere; 5 % of them do not.")
    logo = scattered(LOGO, (4, 7))
    true = FourDatasets.of_class(sources.open_source(name), "Bag", logo, share=0.95)
    old, D_f = _trained(true.pretraining, epochs), true.train.D_f
    masks = drawn_masks(D_f, true.train.D_f_clean)
    known = FourSets(None, D_f, filled(D_f, masks).with_(name="D_f_clean"))
    four = FourDatasets(known, true.test, true.validation, pasted(D_f, masks))
    result = forget(old, four.request("C"), validation=four.validation, progress=True)
    told.judge("logo", "C", four, old, result, logo)
    told.say("For comparison: the same network, trained on the photos as they are without the logo.")
    told.compare(
        "logo", _trained(concatenate([true.train.D_r, true.train.D_f_clean], "D"), epochs), four, logo
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A logo anywhere on one class, known by masks alone.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/logo"))
    parser.add_argument("--data", default="bundled", help="bundled or fashion-mnist")
    parser.add_argument("--epochs", type=int, default=4, help="passes of training, then one to settle (4)")
    given = parser.parse_args()
    main(given.folder, given.data, given.epochs)
