"""Draw docs/images/transforms*.png: one image under each T. Run from the repository's root."""

import torch

from unsee import sources, transforms
from unsee.report import figures

images = sources.bundled().test.x
boot = images[0]
# Three garments as the three colours of one picture, since the bundled data is grey.
coloured = torch.cat([images[5], images[23], images[40]])
logo = torch.full((1, 6, 6), 255) * torch.eye(6)
stripes = (torch.arange(28) % 4 < 2).float().mul(255).expand(1, 28, 28)

line, tile = transforms.line(), transforms.tile()
figures.save(
    figures.gallery(
        boot,
        [None, line, tile, transforms.patch(logo, 2, 20), transforms.blend(stripes, 0.3), line.then(tile)],
    ),
    "docs/images/transforms.png",
)
colours = figures.gallery(coloured, [None, line, tile, transforms.color()])
figures.save(colours, "docs/images/transforms-color.png")
