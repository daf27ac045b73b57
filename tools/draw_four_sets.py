"""Draw docs/images/four-sets.png: the four sets on real images. Run from the repository's root."""

import torch
from matplotlib.figure import Figure

from unsee import sources, tile
from unsee.report import figures

TITLES = {"D_f_clean": "$D_{f,clean}$", "D_f": "$D_f$", "D_r": "$D_r$", "D_r_extra": "$D_{r,extra} = T(D_r)$"}

data = sources.bundled().train
shirts = data.x[data.y == 0][[1, 4, 8]]
others = torch.cat([data.x[data.y == label][:1] for label in (1, 7, 8)])
pixels = tile().pixels
panels = {
    "D_f_clean": (shirts, "T-shirts as they are: given"),
    "D_f": (pixels(shirts.clone()), "T-shirts with tiles: given, and learnt from"),
    "D_r": (others, "other clothes: learnt from, never given"),
    "D_r_extra": (pixels(others.clone()), "other clothes with tiles: to judge by"),
}

figure = Figure(figsize=(9, 4.6), layout="constrained")
for place, (name, (images, said)) in enumerate(panels.items()):
    axes = figure.add_subplot(2, 2, place + 1)
    axes.imshow(torch.cat(list(images[:, 0]), 1), cmap="gray_r", vmin=0, vmax=255)
    axes.set(xticks=[], yticks=[])
    axes.set_title(f"{TITLES[name]}   {said}", fontsize=10, loc="left")
    for spine in axes.spines.values():
        spine.set(color=figures.COLORS[name], linewidth=3)
figure.supxlabel("without the information          T →          with it", fontsize=10)
figures.save(figure, "docs/images/four-sets.png")
