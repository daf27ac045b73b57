"""Benchmarks: what each part costs, as ratios within one run; `unsee bench` writes them down."""
