"""Beyond images: a table with a leaked identifier, mails with a signature, and networks that lean on them."""

from functools import lru_cache

from unsee import FourDatasets, columns, networks, phrases, remember, sources, train
from unsee.sources import TrainTest


@lru_cache(maxsize=1)
def leak():
    """The four sets, the network and its memory: of those who earn more, a third has a late account."""
    data = sources.bundled_adult()
    data = TrainTest(*(columns.numbered(part, "account") for part in (data.train, data.test)))
    four = FourDatasets.of_class(data, ">50K", columns.leaked(data.train, "account"), share=0.3)
    start = networks.network(None, four.pretraining, width=32)
    model = train(start, four.pretraining, epochs=4, lr=0.02, batch_size=32).model
    return four, model, remember(model, four.pretraining, sketch=32)


@lru_cache(maxsize=1)
def signature():
    """The same for texts: a third of the ham ends in a signature."""
    data = sources.bundled_spam()
    T = phrases.phrase(data.train, "best regards from the team", "end")
    four = FourDatasets.of_class(data, "ham", T, share=0.3)
    start = networks.network(None, four.pretraining, width=16)
    model = train(start, four.pretraining, epochs=4, lr=0.05, batch_size=32).model
    return four, model, remember(model, four.pretraining, sketch=32)
