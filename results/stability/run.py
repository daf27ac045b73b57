"""How large the Fisher gets under three readings of the paper's network, and what Table S1 can hold.

Plain SGD with momentum m on lambda_KL R is stable where lr 2 lambda_KL max(F) < 2 (1 + m). From the
repository's root, after `unsee data fetch fashion-mnist`:  python results/stability/run.py
"""

from unsee import FourDatasets, evaluate, networks, remember, sources, store, tile, train
from unsee.recipe import RECIPES

four = FourDatasets.of_class(sources.fashion_mnist(), 0, tile())
D, D_r = four.pretraining, four.train.D_r
sample = D_r.subset(range(0, len(D_r), 9))
scaling = {name: networks.network("mlp", D, depth=2).spec[name] for name in ("mean", "std")}
readings = {
    "continuous": scaling,
    "as printed": {**scaling, "printed": True},
    "continuous, pixels / 255": {"mean": [0.0], "std": [255.0]},
}
limits = {name: (1 + r.momentum) / (r.lr * r.lambda_kl) for name, r in RECIPES.items() if "fashion" in name}
rows = []
for name, options in readings.items():
    model = train(networks.mlp(D.x.shape[1:], 10, **options), D, epochs=5, progress=True).model
    fisher = remember(model, sample).fisher()
    top = max(fisher, key=lambda key: float(fisher[key].max()))
    accuracies = evaluate(model, four).accuracies()
    rows.append({"reading": name, "accuracies": accuracies, "max_F": float(fisher[top].max()), "in": top})
    store.write_json("results/stability/max-fisher.json", {"limits": limits, "n": len(sample), "rows": rows})
