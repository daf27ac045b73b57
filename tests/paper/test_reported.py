import re

from unsee.paper.reported import TABLE_2, TABLE_S1, Published
from unsee.recipe import RECIPES

# As they stand in the paper's source.
LATEX_2 = r"""
Fashion-MNIST & 0 ($\D_f$) & $0.871$ & $0.144$ $\left(\pm 0.205 \right)$ & $0.012$ $\left(\pm 0.001\right)$  &  -- \\
&1 -- 9 ($\D_r$) & $0.875$ & $0.793$ $\left(\pm 0.040\right)$  &  $0.819$  $\left(\pm 0.002\right)$ & $0.895$ \\ \midrule
CIFAR10 & 0 \text{($\D_f$)} & $0.607$  &  $0.114 \left(\pm 0.182 \right)$ &  $0.000$ $\left(\pm 0.000 \right)$  &  -- \\
&1 -- 9  \text{($\D_r$)} & $0.507$ & $0.301$  $\left(\pm 0.069 \right)$  &   $0.479$ $\left(\pm 0.008 \right)$ & $0.527$ \\
"""  # noqa: E501
LATEX_S1 = r"""
Line B & $9.98300 \times 10^{-5}$ & $4.11225 \times 10^{4}$ & $1.28336$ \\
     C & $4.37727 \times 10^{-5}$ & $1.05762 \times 10^{5}$ & $0.45574$ \\
Tile B & $9.98345 \times 10^{-5}$ & $3.56290 \times 10^{4}$ & $1.73782$ \\
     C & $5.18005 \times 10^{-5}$ & $2.98540 \times 10^{5}$ & $0.11402$ \\
Line B & $5.34807 \times 10^{-5}$ & $1.10447 \times 10^{5}$ & $0.28967$ \\
     C & $4.43790 \times 10^{-5}$ & $1.03453 \times 10^{5}$ & $0.38355$ \\
Tile B & $2.57835 \times 10^{-5}$ & $1.53585 \times 10^{5}$ & $0.52451$ \\
     C & $3.04986 \times 10^{-5}$ & $1.95065 \times 10^{5}$ & $1.74012$ \\
Color B & $4.97583 \times 10^{-6}$ & $3.00688 \times 10^{5}$ & $1.81124$ \\
     C & $6.58463 \times 10^{-6}$ & $3.10743 \times 10^{5}$ & $1.20910$ \\
"""


def test_table_2_as_published():
    lines = LATEX_2.strip().splitlines()
    for (data, columns), both in zip(TABLE_2.items(), (lines[:2], lines[2:]), strict=True):
        assert both[0].split("&")[0].strip().lower().replace("-", "") == data.replace("-", "")
        assert list(columns) == ["pretrained", "RND", "RLD", "truncation"]
        for name, line in zip(("D_f", "D_r"), both, strict=True):
            cells = [re.findall(r"\d\.\d{3}", cell) for cell in line.split("&")[2:]]
            printed = [" ± ".join(cell) or "--" for cell in cells]
            assert [str(column[name]) for column in columns.values()] == printed
    assert str(Published(0.875)) == "0.875"


def test_table_s1_as_published_is_what_the_recipes_of_these_names_have():
    lines = LATEX_S1.strip().splitlines()
    for (name, row), line in zip(TABLE_S1.items(), lines, strict=True):
        words = line.replace(r" \times 10^{", "e").replace("}", "")
        assert row == tuple(float(number) for number in re.findall(r"\$([^$]*)\$", words))
        assert name.endswith(line.split("&")[0].split()[-1])
        recipe = RECIPES[name]
        assert (recipe.lr, recipe.lambda_kl, recipe.lambda_f) == row
