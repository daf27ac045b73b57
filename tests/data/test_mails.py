import hashlib

import pytest
import torch

from unsee.data import mails
from unsee.data.mails import encoded, gathered, vocabulary_of, words_of


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
    monkeypatch.setattr(mails, "COUNTS", (1, 2))
    good = files("one", "two") + files("three", group="easy-ham-1")
    assert sorted(label for label, _ in gathered(good).values()) == [0, 1, 1]
    changed = [(*good[0][:2], good[0][2] + b"!"), *good[1:]]
    other = [("elsewhere", *good[0][1:]), *good[1:]]
    for wrong in (changed, other, good[:-1], good + files("four")):
        with pytest.raises(ValueError, match="ham and"):
            gathered(wrong)
    assert len(gathered([*good, ("spam-1", "cmds", b"mv 1 2")])) == 3
