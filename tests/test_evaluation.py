import pytest
import torch
from scipy.stats import norm

from unsee import networks
from unsee.errors import InputError
from unsee.evaluation import evaluate, evaluator
from unsee.forgetting import forget
from unsee.formulation import FourSets
from unsee.scores import Scores


def test_accuracies_by_hand(model, four):
    scores = evaluate(model, four, "B")
    for name, data in four.test.present().items():
        guesses = model(data.x.float()).argmax(1)
        result = scores.sets[name]
        assert (result.correct, result.n) == (int((guesses == data.y).sum()), len(data))
        means = [float((guesses == data.y)[data.y == c].float().mean()) for c in data.y.unique()]
        assert list(result.by_class.values()) == pytest.approx(means)
        assert result.class_mean == pytest.approx(sum(means) / len(means))
    softmax = model(four.test.D_f.x.float()).softmax(1).mean(0)
    assert scores.softmax_D_f == pytest.approx(softmax.tolist(), abs=1e-6)


def test_the_interval_is_wilsons(model, four):
    accuracy = evaluate(model, four).sets["D_r"]
    z, n, p = norm.ppf(0.975), accuracy.n, accuracy.value
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    assert accuracy.interval == pytest.approx((middle - half, middle + half))


def test_the_pretrained_state_meets_no_arrow_of_B_but_D_r(model, four):
    scores = evaluate(model, four, "B", old=model)
    assert [scores.met(name) for name in scores.sets] == [True, None, False, False]
    assert not scores.all_met
    assert scores.score == min(scores.accuracies()[name] for name in ("D_r", "D_f_clean", "D_r_extra"))
    assert set(scores.changes().values()) == {0}


def test_without_the_old_model_arrows_up_are_not_judged(model, four):
    scores = evaluate(model, four, "A")
    assert scores.met("D_r") is None
    assert scores.met("D_f") is False
    assert scores.threshold("D_f") == 0.1


def test_truncation_prints_a_dash_for_D_f(model, four):
    cut = forget(model, four.request("A"), recipe="truncation").model
    scores = evaluate(cut, four, "A", old=model)
    assert "--" in str(scores)
    assert scores.softmax_D_f[0] == 0
    assert sum(scores.softmax_D_f) == pytest.approx(1)


def test_old_scores_serve_as_well_as_the_old_model(model, four):
    before = evaluate(model, four)
    assert evaluate(model, four, "C", old=before).to_dict() == evaluate(model, four, "C", old=model).to_dict()


def test_the_evaluator_gives_rows_and_may_look_at_less(model, four):
    assert evaluator(four)(model) == evaluate(model, four).accuracies()
    few = evaluator(four, limit=10)(model)
    assert few["D_r"] == evaluate(model, FourSets(D_r=four.test.D_r.subset(range(10)))).accuracies()["D_r"]


def test_refusals(model, four):
    with pytest.raises(InputError, match="some of D_r, D_f_clean, D_r_extra to judge Pattern B"):
        evaluate(model, FourSets(D_f=four.test.D_f), "B")
    partly = evaluate(model, FourSets(D_r=four.test.D_r), "B", old=model)
    assert partly.met("D_r")
    assert (partly.score, partly.all_met, partly.any_missed) == (None, False, False)
    with pytest.raises(InputError, match="at least one of the four sets"):
        evaluate(model, FourSets())
    with pytest.raises(InputError, match="every class, found 3 for 10"):
        evaluate(networks.mlp((1, 14, 14), 3, depth=2), four)


def test_only_judgement_ever_decides_on_test_data(model, four, memory):
    """Randomise the test labels: forgetting ends in the same bits."""
    from dataclasses import replace

    noisy = replace(
        four, test=FourSets(**{k: d.with_(y=d.y.roll(1)) for k, d in four.test.present().items()})
    )
    one, two = (
        forget(model, f.request("B"), memory, evaluator=evaluator(f), validation=f.validation)
        for f in (four, noisy)
    )
    assert networks.identity(one.model) == networks.identity(two.model)
    assert one.trajectory != two.trajectory
    assert isinstance(evaluate(one.model, noisy, "B"), Scores)
    assert torch.equal(four.test.D_r.x, noisy.test.D_r.x)
