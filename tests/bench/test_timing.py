import torch

from unsee.bench import timing


def test_things_take_turns_and_the_first_round_does_not_count():
    order = []
    seconds = timing.in_turns({name: lambda name=name: order.append(name) for name in "ab"}, 3)
    assert order == ["a", "b"] * 4
    assert {name: len(times) for name, times in seconds.items()} == {"a": 3, "b": 3}
    assert all(second >= 0 for times in seconds.values() for second in times)


def test_the_ratio_is_of_neighbours():
    assert timing.ratio({"a": [1, 20, 3], "b": [1, 10, 1]}, "a", "b") == 2


def test_the_clock_goes_by_the_threads(monkeypatch):
    monkeypatch.setattr("time.process_time", lambda: 1.0)
    monkeypatch.setattr("time.perf_counter", lambda: 2.0)
    for threads, seconds in ((1, 1.0), (2, 2.0)):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert timing.clock() == seconds


def test_the_machine_and_its_peak():
    assert timing.machine()["threads"] == torch.get_num_threads()
    assert timing.peak(64, rounds=1) > 1e6
