"""Plain YAML: what a case is written in, and nothing of YAML that a case does not need."""

from pathlib import Path
from typing import Any

import yaml

from unsee import store
from unsee.errors import InputError, UsageError


def read(path: Path) -> Any:
    """Read a file; what is wrong in it is named by its line."""
    text = store.read_text(path)
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "the text"
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(f"YAML in {path}", f"at {where}: {problem}", "mend that line") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"YAML in {path}", str(error).splitlines()[0], "write it plainly") from None


def inline(text: str, option: str) -> Any:
    """Read an option such as `{width: 16, blocks: 1}`: YAML in one line."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UsageError(
            f"words such as {{width: 16}} as {option}", f"{text!r}", "write it like that"
        ) from None


class _Loader(yaml.SafeLoader):
    """Plain YAML: no tags, no aliases (which grow without end), nothing merged, each key once."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise InputError("a case without YAML aliases (*name)", "one", "write the value out")
        # PyYAML takes a tag at its word: `!!int ''` ends in an IndexError.
        if tag := getattr(self.peek_event(), "tag", None):
            raise InputError("a case without YAML tags (!!name)", f"{tag!a}", "write the value plainly")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise InputError("each key once in the case", f"{key.value!r} twice", "remove one of them")
            if key.tag == "tag:yaml.org,2002:merge":
                raise InputError("a case without merged keys (<<)", "one", "write them out")
            if isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
        return super().construct_mapping(node, deep)
