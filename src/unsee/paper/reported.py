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

# Figures 4, S1 and S2 give no numbers in print, save this one, in the text of the discussion.
D_R_EXTRA_REMAINS_AROUND = 0.5
RUNS = 10
