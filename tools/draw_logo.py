"""Draw docs/images/logo.png: bags with a logo, without it by masks, and T made of both. Run from the root."""

import sys

import matplotlib.pyplot as plt
import torch

from unsee import FourDatasets, sources
from unsee.filling import filled, pasted
from unsee.report import figures
from unsee.transforms import scattered

sys.path.insert(0, "examples")
from logo import LOGO, drawn_masks

four = FourDatasets.of_class(sources.bundled(), "Bag", scattered(LOGO, (4, 7)), share=0.95)
D_f, others = four.train.D_f, four.test.D_r.subset(range(6))
masks = drawn_masks(D_f, four.train.D_f_clean)
few = D_f.subset(range(6))
rows = {
    "D_f": few.x,
    "masks": 255 * masks[:6, None],
    "D_f,clean": filled(few, masks[:6]).x,
    "others": others.x,
    "T(others)": pasted(D_f, masks)(others).x,
}
figure, axes = plt.subplots(len(rows), 6, figsize=(6, 5.2), layout="constrained")
for line, (name, images) in zip(axes, rows.items(), strict=True):
    for place, (axis, image) in enumerate(zip(line, images, strict=True)):
        axis.imshow(torch.as_tensor(image)[0], cmap="gray", vmin=0, vmax=255)
        axis.set(xticks=[], yticks=[])
        if not place:
            axis.set_ylabel(name, rotation=0, ha="right", va="center")
figures.save(figure, "docs/images/logo.png")
