"""The numbers and claims as published: Hayase, Yasutomi, Katoh, arXiv 2012.11849."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A published accuracy, with the standard deviation over ten runs where one is given."""

    mean: float | None
    std: float | None = None

    def __str__(self) -> str:
        if self.mean is None:
            return "--"
        return f"{self.mean:.3f}" if self.std is None else f"{self.mean:.3f} ± {self.std:.3f}"


PUBLISHED_RUNS = 10  # of RND and RLD in Table 2

# Table 2, by data set, column and row; D_r is the mean over the classes 1-9.
TABLE_2: dict[str, dict[str, dict[str, Published]]] = {
    "fashion-mnist": {
        "pretrained": {"D_f": Published(0.871), "D_r": Published(0.875)},
        "RND": {"D_f": Published(0.144, 0.205), "D_r": Published(0.793, 0.040)},
        "RLD": {"D_f": Published(0.012, 0.001), "D_r": Published(0.819, 0.002)},
        "truncation": {"D_f": Published(None), "D_r": Published(0.895)},
    },
    "cifar-10": {
        "pretrained": {"D_f": Published(0.607), "D_r": Published(0.507)},
        "RND": {"D_f": Published(0.114, 0.182), "D_r": Published(0.301, 0.069)},
        "RLD": {"D_f": Published(0.000, 0.000), "D_r": Published(0.479, 0.008)},
        "truncation": {"D_f": Published(None), "D_r": Published(0.527)},
    },
}

# Table S1, by data set, T and pattern: learning rate, lambda_KL and lambda_f found by its cross-validations.
TABLE_S1 = {
    "fashion-mnist/line/B": (9.98300e-5, 4.11225e4, 1.28336),
    "fashion-mnist/line/C": (4.37727e-5, 1.05762e5, 0.45574),
    "fashion-mnist/tile/B": (9.98345e-5, 3.56290e4, 1.73782),
    "fashion-mnist/tile/C": (5.18005e-5, 2.98540e5, 0.11402),
    "cifar-10/line/B": (5.34807e-5, 1.10447e5, 0.28967),
    "cifar-10/line/C": (4.43790e-5, 1.03453e5, 0.38355),
    "cifar-10/tile/B": (2.57835e-5, 1.53585e5, 0.52451),
    "cifar-10/tile/C": (3.04986e-5, 1.95065e5, 1.74012),
    "cifar-10/color/B": (4.97583e-6, 3.00688e5, 1.81124),
    "cifar-10/color/C": (6.58463e-6, 3.10743e5, 1.20910),
}

# Figures 4, S1 and S2 give no numbers in print, save this one, in the text of the discussion.
D_R_EXTRA_REMAINS_AROUND = 0.5
