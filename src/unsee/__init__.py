"""Make a trained PyTorch classifier unsee what it should never have learnt."""
