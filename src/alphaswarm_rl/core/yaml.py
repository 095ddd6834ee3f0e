"""YAML read safely, with the scalars of YAML 1.2.

Only true and false are booleans (so the tickers ON and NO stay text), `3e-4` is a number, there are no dates, no octal,
no duplicate keys and no tags.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from alphaswarm_rl.core.errors import SpecError
from alphaswarm_rl.core.files import read_regular
from alphaswarm_rl.core.json import refuse_excess

#: Bytes of a YAML file: ten thousand symbols are a tenth of it.
_MOST_BYTES = 1 << 20
#: More nodes than any honest file has; anchors that refer to anchors reach it with a few lines.
_MOST_NODES = 200_000


_NO_CONSTRUCTOR = "could not determine a constructor for the tag"


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


_SCALARS = (
    ("null", r"~|null|Null|NULL|", "~nN"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    ("merge", r"<<", "<"),
)
for _name, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$"), [*_first, *([""] if _name == "null" else [])]
    )


def _int(loader: _Loader, node: yaml.ScalarNode) -> int:
    digits = str(loader.construct_scalar(node))
    try:
        return int(digits)
    except ValueError as error:  # Python reads no integer of more than some thousand digits
        problem = f"an integer of {len(digits)} digits is too large"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


def _float(loader: _Loader, node: yaml.ScalarNode) -> float:
    return float(str(loader.construct_scalar(node)).lower().replace(".inf", "inf").replace(".nan", "nan"))


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen = set()
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key = loader.construct_object(key_node)
        if not isinstance(key, str):
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key!r} is not text; quote it", key_node.start_mark
            )
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} appears twice", key_node.start_mark)
        seen.add(key)
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor("tag:yaml.org,2002:int", _int)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def load_yaml(text: str, *, source: str = "YAML text") -> Any:
    """The data in a YAML document; anything but plain data is an error that names the place."""
    try:
        return _load(text)
    except RecursionError as error:
        raise SpecError(source, "it is nested too deeply", "Write it flatter.") from error
    except ValueError as error:
        raise SpecError(source, str(error), "Mend the YAML.") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{source}, line {mark.line + 1}" if mark is not None else source
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        if problem.startswith(_NO_CONSTRUCTOR):
            tag = problem.rpartition("tag ")[2].strip("'")
            raise SpecError(
                place, f"the tag {tag} is not plain data", "Remove the tag: a spec never runs code."
            ) from error
        raise SpecError(place, problem, "Mend the YAML.") from error


def _load(text: str) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_bombs(node)
        _refuse_tags(loader, node)
        data = loader.construct_document(node)
    finally:
        loader.dispose()
    refuse_excess(data)
    return data


def load_yaml_file(path: Path) -> Any:
    """The data in a YAML file."""
    try:
        text = read_regular(path, most_bytes=_MOST_BYTES).decode()
    except FileNotFoundError as error:
        raise SpecError(f"file {str(path)!r}", "it does not exist", "Check the path.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(
            f"file {str(path)!r}", f"it cannot be read: {error}", "Check that it is a readable text file."
        ) from error
    return load_yaml(text, source=f"file {str(path)!r}")


def dump_yaml(data: object) -> str:
    """Plain data as YAML that `load_yaml` reads back as the same data."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=100)


class _Dumper(yaml.SafeDumper):
    # Quote exactly what our reader would take for something else than text.
    yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_float(dumper: _Dumper, value: float) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:float", repr(value))


_Dumper.add_representer(float, _represent_float)


#: What plain data is made of.
_PLAIN = {f"tag:yaml.org,2002:{name}" for name in ("map", "seq", "str", *(name for name, _, _ in _SCALARS))}
_TEXT = "tag:yaml.org,2002:str"


def _refuse_tags(loader: _Loader, root: yaml.Node) -> None:
    """Refuses tags of other data than ours, such as dates and sets, and those that do not fit what they stand at."""
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.tag not in _PLAIN:
            raise yaml.constructor.ConstructorError(None, None, f"{_NO_CONSTRUCTOR} {node.tag!r}", node.start_mark)
        if isinstance(node, yaml.ScalarNode):
            fits = node.tag in (_TEXT, loader.resolve(yaml.ScalarNode, node.value, (True, False)))  # type: ignore[no-untyped-call]
        else:
            fits = node.tag == loader.resolve(type(node), None, True)  # type: ignore[no-untyped-call]
            waiting += [part for child in node.value for part in (child if isinstance(child, tuple) else (child,))]
        if not fits:
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(None, None, f"the tag !!{kind} does not fit here", node.start_mark)


def _refuse_bombs(root: yaml.Node) -> None:
    sizes: dict[int, int] = {}

    def size(node: yaml.Node, above: frozenset[int]) -> int:
        if id(node) in above:
            raise yaml.constructor.ConstructorError(None, None, "an anchor contains itself", node.start_mark)
        if id(node) not in sizes:
            children = node.value if isinstance(node.value, list) else []
            flat = [part for child in children for part in (child if isinstance(child, tuple) else (child,))]
            sizes[id(node)] = 1 + sum(size(child, above | {id(node)}) for child in flat)
        if sizes[id(node)] > _MOST_NODES:
            raise yaml.constructor.ConstructorError(None, None, "its anchors expand to too much data", node.start_mark)
        return sizes[id(node)]

    size(root, frozenset())
