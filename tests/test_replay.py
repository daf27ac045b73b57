import copy
from dataclasses import replace

import pytest
import torch

from beyond import leak, signature
from unsee.datasets import Dataset
from unsee.errors import UnseeWarning
from unsee.formulation import Request
from unsee.memory import remember
from unsee.networks import fresh
from unsee.randomness import stream
from unsee.replay import FEWEST, RARE, Replay, recognised, replay_of, targets, worn
from unsee.sketch import Sketch
from unsee.transforms import Transform, line


@pytest.fixture(scope="module")
def sketch(model, four):
    return remember(model, four.train.D_r, sketch=32).sketch


def test_a_sketch_is_drawn_from_if_there_is_one(model, four, sketch):
    for pattern in "ABC":
        replay = replay_of(model, four.request(pattern), sketch)
        assert (replay.source, replay.images) == ("sketch", None)
        x, labels = replay.draw(50, stream(0, "x"))
        expected = sketch.draw(50, stream(0, "x"))
        assert torch.equal(x, expected[0])
        assert torch.equal(labels, expected[1])
        assert 0 not in labels


@pytest.fixture(scope="module")
def part(four):
    """A request of somebody who knows only some of D_f."""
    return Request("B", four.train.D_f.subset(range(40)), four.train.D_f_clean.subset(range(40)), four.T)


def test_of_a_class_that_the_sketch_knows_only_with_T_it_is_taken_off(model, four, part):
    rest = four.pretraining.subset(torch.nonzero(four.pretraining.y != 0).flatten())
    whole = remember(model, rest, sketch=32).merge(remember(model, four.train.D_f, sketch=32)).sketch
    replay = replay_of(model, part, whole, T=four.T)
    assert replay.worn.classes.tolist() == [0]
    place, clean = replay.worn.place, part.D_f_clean.x
    assert torch.equal(place, (four.T(four.train.D_r).x != four.train.D_r.x).any(0))
    x, labels = replay.draw(200, stream(0, "x"))
    taken, same = whole.draw(200, stream(0, "x"))
    assert torch.equal(labels, same)
    assert torch.equal(x[labels != 0], taken[labels != 0])
    assert (labels == 0).sum() > 5
    for bare, sample in zip(x[labels == 0], taken[labels == 0], strict=True):
        assert torch.equal(bare[~place], sample[~place])
        far = [(image - sample.double())[~place].square().sum() for image in clean.double()]
        assert torch.equal(bare[place], clean[int(torch.stack(far).argmin())][place])
    assert torch.equal(four.T.pixels(x[labels == 0]), taken[labels == 0])


def test_it_is_taken_off_a_sketchs_samples_for_images_of_double_precision_too(model, four):
    request = four.request("B")
    D_f, clean = (data.with_(x=data.x.double(), name="double") for data in (request.D_f, request.D_f_clean))
    part = Request("B", D_f.subset(range(40)), clean.subset(range(40)), four.T)
    bared = replay_of(model, part, remember(model, D_f, sketch=32).sketch, T=four.T)
    assert bared.worn.classes.tolist() == [0]
    x, _ = bared.draw(20, stream(0, "x"))
    assert not torch.equal(x, four.T.pixels(x.clone()))


def test_of_a_coarse_sketch_the_rim_of_T_is_taken_off_too(four):
    T, clean = line(), four.train.D_f_clean
    part = Request("B", T(clean).subset(range(40)), clean.subset(range(40)), T)
    dressed, bare = (Sketch.empty(clean.x, len(clean.classes), (0, 255), 0.2) for _ in range(2))
    assert dressed.pool == 2
    dressed.add(T(clean).x, clean.y)
    bare.add(clean.x, clean.y)
    assert worn(bare, part, T) is None
    found = worn(dressed, part, T)
    assert found.classes.tolist() == [0]
    x, labels = dressed.draw(100, stream(0, "x"))
    under = (T.pixels(torch.zeros_like(x[:1])) > 0)[0]
    rim = (torch.nn.functional.max_pool2d(under.float()[None], 3, 1, 1)[0] > 0) & ~under
    assert found.place[under | rim].all()
    before, after = x[:, rim].float().mean(), found.take_off(x, labels)[:, rim].float().mean()
    truth = clean.x[:, rim].float().mean()
    assert before - truth > 20
    assert abs(after - truth) < 10


def test_T_is_taken_off_nothing_that_does_not_wear_it(model, four, part, sketch):
    assert worn(sketch, part, four.T) is None  # all of D_f is out of it
    clean = remember(model, four.train.D_f_clean, sketch=32).sketch.merge(sketch)
    assert worn(clean, part, four.T) is None  # class 0 without T
    D_f = remember(model, four.train.D_f, sketch=32).sketch
    assert worn(clean.merge(D_f), part, four.T) is None  # half of class 0 wears it
    assert worn(D_f, part, four.T) is not None
    dark = Transform("dark", lambda x: x // 2)
    assert worn(D_f, part, dark) is None  # what lies under it is nowhere seen
    assert worn(D_f, four.request("A"), four.T) is None
    others = part.D_f_clean.with_(y=torch.ones_like(part.D_f_clean.y))
    assert worn(D_f, Request("B", part.D_f, others, four.T), four.T) is None  # 0 is an attacker's label
    assert replay_of(model, part, D_f).worn is None  # T is not known


def test_stand_ins_are_made_of_D_f_clean_where_there_is_none(model, four):
    for pattern, images in (("A", four.train.D_f), ("B", four.train.D_f_clean), ("C", four.train.D_f_clean)):
        replay = replay_of(model, four.request(pattern), None)
        assert replay.source == "stand-ins"
        assert replay.images is images
        x, labels = replay.draw(64, stream(0, "x"))
        assert labels is None
        assert (x.shape, x.dtype) == ((64, 1, 14, 14), torch.uint8)


def test_a_sketch_without_a_class_to_draw_is_none(model, four):
    empty = Sketch.empty(four.train.D_f.x, 10, (0.0, 255.0))
    assert replay_of(model, four.request("B"), empty).source == "stand-ins"


def test_images_that_the_old_model_knows_are_asked_for_as_they_are(model, four, data):
    """A model that answers the clean images rightly, as in Pattern C of another class."""
    known = data.train.of_class(9)
    right = [i for i, x in enumerate(known.x) if int(model(x[None].float()).argmax()) == 9]
    assert len(right) / len(known) > 0.5
    replay = replay_of(model, Request("C", four.T(known), known, four.T), None)
    assert torch.equal(replay.near, known.x[right])
    assert replay.draw(65, stream(0, "x"))[0].shape == (65, 1, 14, 14)
    assert replay_of(model, four.request("B"), None).near is None  # it takes T-shirts for something else
    assert replay_of(model, Request("A", known), None).near is None  # those are to be forgotten


def test_a_class_that_D_f_clean_lacks_is_replayed_by_what_is_taken_for_it(model, four, data):
    """A poisoning: all of D_f was made class 1, and none of it is."""
    clean = data.train.of_class(9)
    request = Request("B", four.T(clean).with_(y=torch.ones_like(clean.y)), clean, four.T)
    replay = replay_of(model, request, None)
    assert RARE >= len(replay.rare) >= FEWEST
    assert (model(replay.rare.float()).argmax(1) == 1).all()
    x, _ = replay.draw(60, stream(0, "x"))
    assert (model(x[:20].float()).argmax(1) == 1).all()
    assert replay_of(model, four.request("B"), None).rare is None
    blind = copy.deepcopy(model)
    with torch.no_grad():
        blind[-1].bias[1] = -1e6
    with pytest.warns(UnseeWarning, match="no sample of Trouser, and little else"):
        assert replay_of(blind, request, None).rare is None


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_are_drawn_too(four, n):
    """As in the last batch of an epoch."""
    images = four.train.D_f_clean
    for near in (None, images.x[:5]):
        assert Replay(None, images, near).draw(n, stream(0, "x"))[0].shape == (n, 1, 14, 14)


@pytest.mark.parametrize("span", [(0.0, 1.0), (-1.0, 1.0)])
def test_floats_stay_floats_in_their_range(four, span):
    images = four.train.D_f_clean.rescaled(*span)
    x, _ = Replay(None, images, images.x[:5]).draw(100, stream(0, "x"))
    assert x.dtype == torch.float32
    assert (float(x.min()), float(x.max())) == span


def test_what_is_no_image_has_no_stand_ins(model, four):
    rows = Dataset(four.train.D_f.x.flatten(1), four.train.D_f.y, 10)
    assert replay_of(model, Request("A", rows), None) is None
    standardised = Dataset(four.train.D_f.x.float() - 99, four.train.D_f.y, 10)
    assert standardised.value_range is None
    assert replay_of(model, Request("A", standardised), None) is None


def test_rows_of_numbers_are_replayed_from_a_sketch(four):
    rows = four.train.D_r.with_(x=four.train.D_r.x.flatten(1)[:, :20].float() - 99, value_range=None)
    sketch = Sketch.empty(rows.x, 10, None)
    sketch.add(rows.x, rows.y)
    net = torch.nn.Linear(20, 10)
    replay = replay_of(net, Request("A", rows.of_class(1)), sketch)
    assert replay.draw(8, stream(0, "x"))[0].shape == (8, 20)


def test_the_same_stream_gives_the_same_bits(model, four, sketch):
    for replay in (replay_of(model, four.request("B"), sketch), replay_of(model, four.request("B"), None)):
        one, again, other = (replay.draw(30, stream(0, "x", step))[0] for step in (0, 0, 1))
        assert torch.equal(one, again)
        assert not torch.equal(one, other)


def test_targets_mix_old_answers_and_labels():
    y, labels = torch.tensor([[2.0, 1.0, -1.0], [0.0, 0.0, 9.0]]), torch.tensor([1, 2])
    old = y.softmax(1)
    for known, trust in ((None, 0.8), (labels, 0.0)):
        assert torch.allclose(targets(y, known, trust).exp(), old)
    half = targets(y, labels, 0.5).exp()
    assert torch.allclose(half, (old + torch.eye(3)[labels]) / 2, atol=1e-6)
    mixed = targets(y, labels, 0.5, torch.tensor([2])).exp()
    assert torch.allclose(
        mixed, torch.stack([half[0], torch.eye(3)[2]]), atol=1e-6
    )  # of class 2 the label alone
    assert torch.allclose(targets(y, labels, 0.0, torch.tensor([2])).exp()[0], old[0])
    sure = targets(y, labels, 1.0)
    assert torch.isfinite(sure).all()
    assert torch.allclose(sure.exp(), torch.eye(3)[labels], atol=1e-6)


def test_a_replay_cannot_be_changed(sketch):
    with pytest.raises(AttributeError, match="cannot assign"):
        Replay(sketch).sketch = None
    assert replace(Replay(sketch), sketch=None).source == "stand-ins"


def test_a_sketch_that_the_model_does_not_recognise_is_not_replayed(model, four, sketch):
    """A convolutional network sees no class in smooth pixels; a network that knows nothing stands for it."""
    blind = fresh(model, 3)
    assert not recognised(blind, (0, 255), sketch, None)
    assert replay_of(blind, four.request("B"), sketch).source == "stand-ins"
    # What D_r itself is to such a network, the samples of the sketch need not be more.
    assert recognised(blind, (0, 255), sketch, 9.0)
    assert recognised(model, (0, 255), sketch, None)


@pytest.mark.parametrize("case", [leak, signature])
def test_rows_and_texts_are_replayed_from_their_sketch_or_as_stand_ins(case):
    four, model, memory = case()
    request = four.request("C")
    kept = memory.subtract(remember(model, request.D_f, sketch=memory.sketch))
    found = replay_of(model, request, kept.sketch, kept.level())
    x, labels = found.draw(200, stream(0, "x"))
    assert found.source == "sketch"
    Dataset(x.to(request.D_f.x.dtype), labels, request.D_f.classes, kind=request.D_f.kind)
    found = replay_of(model, request, None)
    x, labels = found.draw(201, stream(0, "x"))
    assert (found.source, labels, x.shape) == ("stand-ins", None, (201, *request.D_f.x.shape[1:]))
    assert found.near is not None


def test_fewer_names_of_classes_than_answers_do_no_harm(model, four):
    request = four.request("B")
    named = {"D_f": request.D_f, "D_f_clean": request.D_f_clean}
    few = Request("B", **{k: d.with_(classes=("top",)) for k, d in named.items()}, T=request.T)
    sketch = remember(model, four.pretraining, sketch=32).sketch
    assert replay_of(model, few, sketch).source == replay_of(model, request, sketch).source == "sketch"
