"""The verbs of the command line and their options, in words; what they do is in the rooms beside."""

from __future__ import annotations

from unsee.command_line.sharing import four_sets, judging, model_or_case, of_a_case, place, verb_of

TYPE_CHECKING = False  # of typing, which takes long to open, and of which nothing is needed to run
if TYPE_CHECKING:
    from typing import Any


def add_verbs(verbs: Any, asked: str | None = None) -> None:
    """Add all verbs, in the order in which one needs them; `asked` is the one that will run, None any."""
    verbs = _Verbs(verbs, asked)
    for add in (_demo, _data, _train, _remember):
        add(verbs)
    _init(verbs, asked=asked == "init")
    for add in (_forget, _evaluate, _report, _view, _tune, _reproduce, _bench):
        add(verbs)


def _demo(verbs: Any) -> None:
    verb = verb_of(verbs, "demo", "the whole way on the bundled data, in about a minute", "unsee demo")
    verb.add_argument(
        "--out", default="runs/demo", metavar="FOLDER", help="where everything goes (%(default)s)"
    )


def _data(verbs: Any) -> None:
    text = "list the data sets that are here, or fetch one"
    verb = verb_of(verbs, "data", text, "unsee data list\nunsee data fetch fashion-mnist", run=False)
    verb.add_argument("action", choices=("list", "fetch"), help="show what is here, or get one")
    verb.add_argument("name", nargs="?", help="with fetch: one that `unsee data list` shows")


def _train(verbs: Any) -> None:
    example = "unsee train --data bundled --class 0 --T tile --out runs/old"
    verb = verb_of(verbs, "train", "train a network on D, with T planted on a class if asked", example)
    verb.add_argument(
        "--out",
        required=True,
        type=place,
        metavar="FOLDER",
        help="where the model goes; also resumes from there",
    )
    text = "mlp (the paper's), resnet, table or text (mlp, or what fits the data)"
    verb.add_argument("--network", metavar="NAME", help=text)
    verb.add_argument("--epochs", type=int, default=5, metavar="N", help="passes over D (%(default)s)")
    verb.add_argument("--lr", type=float, default=0.01, metavar="X", help="learning rate (%(default)s)")
    verb.add_argument("--batch-size", type=int, default=128, metavar="N", help="samples a step (%(default)s)")
    four_sets(verb)


def _remember(verbs: Any) -> None:
    example = (
        "unsee remember runs/old/model.safetensors --data bundled --class 0 --T tile \\\n"
        "    --out runs/memory.safetensors\n"
        "unsee remember case.yaml --data training-images --out memory.safetensors"
    )
    verb = verb_of(verbs, "remember", "take the memory of D: the exact diagonal Fisher", example)
    model_or_case(verb)
    of_a_case(verb)
    verb.add_argument(
        "--out", required=True, type=place, metavar="FILE", help="where the memory goes (.safetensors)"
    )
    verb.add_argument(
        "--batch-size", type=int, default=512, metavar="N", help="samples at once; no effect on the result"
    )
    text = "take a sketch of each class too, in so many MB (32); what it reveals: docs/sketch.md"
    verb.add_argument("--sketch", type=float, nargs="?", const=32.0, metavar="MB", help=text)
    four_sets(verb)


def _init(verbs: Any, *, asked: bool) -> None:
    example = (
        "unsee init case.yaml\n"
        "unsee init case.yaml --weights model.pth --network resnet --classes cat,dog --pattern B \\\n"
        "    --forget bad --clean clean --remember good\n"
        "unsee forget case.yaml --out runs/case"
    )
    text = "write a case file for a model of your own: asks, or takes options"
    verb = verb_of(verbs, "init", text, example, run=False)
    verb.add_argument("case", nargs="?", default="case.yaml", metavar="FILE", help="the file (%(default)s)")
    verb.add_argument("--schema", action="store_true", help="print the JSON schema of case files for editors")
    if not asked:
        return
    # The words of a case are documented in its fields alone; reading them takes a while, so only when asked.
    from unsee.cases.case import Case, ModelWords, SetWords

    of_the_case = ("preprocess", "pattern", "forget", "clean", "trigger", "remember", "extra", "memory")
    forms = {"classes": "A,B,...", "options": "{...}", "preprocess": "{...}", "pattern": "A|B|C"}
    for part, names in (
        (ModelWords, ("weights", "network", "options", "classes")),
        (Case, of_the_case),
        (SetWords, ("label",)),
    ):
        for name in names:
            text = (part.model_fields[name].description or "").replace("%", "%%")
            text += " For `forget`." if name == "label" else ""
            verb.add_argument(f"--{name}", metavar=forms.get(name, "X"), help=text)


def _forget(verbs: Any) -> None:
    example = (
        "unsee forget runs/old/model.safetensors --memory runs/memory.safetensors --pattern B \\\n"
        "    --data bundled --class 0 --T tile --out runs/new\n"
        "unsee forget runs/old/model.safetensors --pattern A --recipe truncation --class 0 --out runs/new\n"
        "unsee forget case.yaml"
    )
    verb = verb_of(verbs, "forget", "make the model forget, and judge the result", example)
    model_or_case(verb)
    judging(verb)
    text = "the run's folder; the same command resumes there (runs/NAME for a case)"
    verb.add_argument("--out", type=place, metavar="FOLDER", help=text)
    text = "put example images (rows, texts) and what the models look at into the report"
    verb.add_argument("--with-images", action="store_true", help=text)
    text = "go on even if the model does not react to what is to be forgotten"
    of_a_case(verb).add_argument("--anyway", action="store_true", help=text)
    verb.add_argument("--memory", metavar="FILE", help="what `unsee remember` wrote")
    verb.add_argument(
        "--recipe", metavar="NAME|FILE", help="a named recipe or a .json file (ours for the pattern)"
    )
    for name, kind, text in (
        (
            "forgetting",
            str,
            "L_f by name: twin, invariance, delete, ascent, rld, rnd, none, truncation, ...",
        ),
        ("lambda-c", float, "weight of the correction term L_c"),
        ("lambda-f", float, "weight of the forgetting term L_f"),
        ("lambda-kl", float, "weight of the remembering term R (run.json says what ours came to)"),
        ("lambda-h", float, "weight of the hidden twins L_h (ours: more where D_f,clean has many classes)"),
        ("lambda-s", float, "weight of the replayed samples L_s"),
        ("lr", float, "learning rate"),
        ("momentum", float, "momentum of SGD"),
        ("batch-size", int, "samples of D_f a step"),
        ("epochs", int, "passes over D_f (parts of one where D_f is small), at the most where it settles"),
        ("floor", float, "how much accuracy on D_r may be lost before it goes back"),
        ("labels", str, "what RLD draws from: others or all"),
        ("fisher-over", str, "R over D_r (the memory without D_f's share) or D"),
    ):
        verb.add_argument(f"--{name}", type=kind, metavar="X", help=f"{text} (the recipe's)")
    four_sets(verb)


def _evaluate(verbs: Any) -> None:
    example = (
        "unsee evaluate runs/new/model.safetensors --old runs/old/model.safetensors --pattern B \\\n"
        "    --data bundled --class 0 --T tile\n"
        "unsee evaluate case.yaml --new runs/case/model.safetensors"
    )
    verb = verb_of(verbs, "evaluate", "judge a model on the four test sets", example)
    model_or_case(verb)
    text = "weights to judge against the case's own, such as a run's (the case's own)"
    of_a_case(verb).add_argument("--new", metavar="FILE", help=text)
    judging(verb)
    verb.add_argument("--old", metavar="FILE", help="the model before forgetting, to judge the arrows by")
    four_sets(verb)


def _report(verbs: Any) -> None:
    text = "write the report of one run, or of several side by side"
    verb = verb_of(
        verbs, "report", text, "unsee report runs/demo\nunsee report runs/a runs/b --out both.html", run=False
    )
    verb.add_argument("runs", nargs="+", metavar="RUN", help="folders that `unsee forget` or the demo left")
    text = "the page (report.html in the folder, comparison.html in the first of several)"
    verb.add_argument("--out", type=place, metavar="FILE", help=text)


def _view(verbs: Any) -> None:
    text = "show runs in a browser, compare them, and try both models on images"
    verb = verb_of(verbs, "view", text, "unsee view\nunsee view runs/demo --no-browser", run=False)
    verb.add_argument(
        "folder", nargs="?", default="runs", metavar="FOLDER", help="runs are below (%(default)s)"
    )
    text = "where it listens, on this machine's own address and no other (8642, or any that is free)"
    verb.add_argument("--port", type=int, metavar="N", help=text)
    verb.add_argument("--no-browser", action="store_true", help="print the address and open nothing")


def _tune(verbs: Any) -> None:
    example = (
        "unsee tune runs/old/model.safetensors --memory runs/memory.safetensors --pattern B \\\n"
        "    --data bundled --class 0 --T tile --trials 20 --folds 2 --epochs 2 --out runs/study"
    )
    verb = verb_of(verbs, "tune", "search for lambda_f, lambda_KL and the learning rate", example)
    model_or_case(verb)
    verb.add_argument("--pattern", metavar="A|B|C", help="what is to be forgotten (Table 1)")
    text = "the study's folder: the same command goes on there, and several may run at once"
    verb.add_argument("--out", required=True, type=place, metavar="FOLDER", help=text)
    verb.add_argument("--memory", metavar="FILE", help="what `unsee remember` wrote")
    text = "where to start, and what to keep of the rest (the paper's)"
    verb.add_argument("--recipe", metavar="NAME|FILE", help=text)
    verb.add_argument("--trials", type=int, default=200, metavar="N", help="finished trials (%(default)s)")
    verb.add_argument("--minutes", type=float, metavar="X", help="stop after so long, once a trial has ended")
    verb.add_argument("--folds", type=int, default=5, metavar="N", help="parts of D_f (%(default)s)")
    text = "epochs a fold (the recipe's: 10 in the paper's)"
    verb.add_argument("--epochs", type=int, metavar="N", help=text)
    verb.add_argument("--batch-size", type=int, metavar="N", help="samples of D_f a step (the recipe's)")
    text = "give a trial up when so far behind the best (%(default)s); a negative number: never"
    verb.add_argument("--prune", type=float, default=0.05, metavar="X", help=text)
    text = "but not in its first epochs (%(default)s)"
    verb.add_argument("--grace", type=int, default=3, metavar="N", help=text)
    for name, ends in (("lr", "1e-6 1e-3"), ("lambda-kl", "1e3 1e6"), ("lambda-f", "0.03 10")):
        text = f"where {name} is sought ({ends}, or ten times around the recipe's own)"
        verb.add_argument(f"--{name}-range", type=float, nargs=2, metavar=("LOW", "HIGH"), help=text)
    of_a_case(verb)
    four_sets(verb)


def _reproduce(verbs: Any) -> None:
    example = "unsee reproduce all --quick\nunsee reproduce figure-4 --data fashion-mnist --out runs/mine"
    text = "run the paper's tables and figures again, beside the published numbers"
    verb = verb_of(verbs, "reproduce", text, example, run=False)
    names = "table-2, table-s1, figure-2, figure-3, figure-4, figure-s1, figure-s2, or all"
    verb.add_argument("names", nargs="+", metavar="NAME", help=names)
    text = "rows, figures, page (results/paper; with --quick runs/quick)"
    verb.add_argument("--out", metavar="FOLDER", help=text)
    text = "networks and memories, to go on from (%(default)s)"
    verb.add_argument("--work", default="runs/paper", metavar="FOLDER", help=text)
    verb.add_argument("--quick", action="store_true", help="bundled data, one seed, few epochs: does it run?")
    verb.add_argument("--seeds", type=int, metavar="N", help="runs of each line (10; cifar-10: 3)")
    verb.add_argument("--data", metavar="NAME", help="only fashion-mnist or cifar-10")


def _bench(verbs: Any) -> None:
    example = "unsee bench fisher forget\nunsee bench all --quick --out runs/bench"
    text = "measure what each part costs, as ratios within one run"
    verb = verb_of(verbs, "bench", text, example, run=False)
    names = "fisher, forget, growth, memory, startup, or all (some ten minutes)"
    verb.add_argument("names", nargs="+", metavar="NAME", help=names)
    text = "results and the page of all of them (%(default)s)"
    verb.add_argument("--out", default="benchmarks", metavar="FOLDER", help=text)
    text = "with one, processor time is counted, which others disturb less (%(default)s)"
    verb.add_argument("--threads", type=int, default=1, metavar="N", help=text)
    verb.add_argument("--quick", action="store_true", help="tiny subjects, in seconds: does it run?")


class _Verbs:
    """The verbs of a parser: whichever is not asked for gets no options, as adding them takes a while."""

    def __init__(self, verbs: Any, asked: str | None) -> None:
        self.verbs, self.asked = verbs, asked

    def add_parser(self, name: str, **words: Any) -> Any:
        verb = self.verbs.add_parser(name, **words)
        return verb if self.asked in (None, name) else _Unasked()


class _Unasked:
    def add_argument(self, *_: Any, **__: Any) -> None:
        pass

    def add_argument_group(self, *_: Any, **__: Any) -> Any:
        return self

    set_defaults = add_argument
