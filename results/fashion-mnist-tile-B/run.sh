#!/usr/bin/env bash
# The paper's method on whole Fashion-MNIST, tile, Pattern B, one seed: about ten minutes on two cores.
# From the repository's root, after `unsee data fetch fashion-mnist`:  bash results/fashion-mnist-tile-B/run.sh
set -u
here=results/fashion-mnist-tile-B
out=runs/fashion-mnist-tile-B
four="--data fashion-mnist --class 0 --T tile"
old=$out/old/model.safetensors
run() { # name, then what is changed in Table S1's recipe
    name=$1
    shift
    unsee forget $old $four --memory $out/memory.safetensors --pattern B --recipe fashion-mnist/tile/B \
        --out $out/$name "$@"
    cp $out/$name/run.json $here/$name.json
}
unsee train $four --out $out/old && unsee remember $old $four --out $out/memory.safetensors || exit
unsee evaluate $old $four --json >$here/pretrained.json
run ce --lambda-f 0 --lambda-kl 0
run ce-fisher --lambda-f 0
run ce-fisher-rld
run ce-rld --lambda-kl 0
