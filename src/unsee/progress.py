"""A bar for long work, drawn on standard error so that standard output stays for results."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(label: str | None, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Yield a function that moves the bar by so many steps; without a label nothing is drawn.

    >>> with bar(None, 10) as advance:
    ...     advance(3)
    """
    if label is None:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as drawn:
        task = drawn.add_task(label, total=total, completed=done)
        yield lambda steps: drawn.advance(task, steps)
