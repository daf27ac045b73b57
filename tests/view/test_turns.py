import asyncio
import threading
import time

import pytest

from unsee.view.turns import MOST_WAITING, Late, Turns


@pytest.fixture
def turns():
    turns = Turns()
    yield turns
    turns.close()


def test_questions_are_answered_one_after_the_other(turns):
    at_once, most = [], []

    def ask(number):
        at_once.append(number)
        most.append(len(at_once))
        time.sleep(0.01)
        at_once.remove(number)
        return number

    async def all_of_them():
        return await asyncio.gather(*(turns.take(5, ask, i) for i in range(MOST_WAITING)))

    assert asyncio.run(all_of_them()) == list(range(MOST_WAITING))
    assert max(most) == 1


def test_who_would_wait_behind_too_many_is_told_at_once(turns):
    gate = threading.Event()

    async def crowd():
        waiting = [asyncio.ensure_future(turns.take(5, gate.wait)) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0.05)
        with pytest.raises(Late, match="ask again"):
            await turns.take(5, gate.wait)
        gate.set()
        await asyncio.gather(*waiting)
        return await turns.take(5, int, "3")

    assert asyncio.run(crowd()) == 3


def test_a_late_answer_is_given_up_and_its_room_comes_back(turns):
    gate = threading.Event()

    async def slow():
        start = time.monotonic()
        for _ in range(3):
            with pytest.raises(Late, match=r"within 0\.05 seconds"):
                await turns.take(0.05, gate.wait)
        assert time.monotonic() - start < 2
        gate.set()
        return await asyncio.gather(*(turns.take(5, int, str(i)) for i in range(MOST_WAITING - 1)))

    assert asyncio.run(slow()) == list(range(MOST_WAITING - 1))


def test_an_error_comes_through(turns):
    with pytest.raises(ValueError, match="invalid literal"):
        asyncio.run(turns.take(5, int, "x"))
