"""How every program here reads: regular files alone, within limits of size and depth, and what is wrong is a sentence.

Python's own library alone, so that programs that draw nothing can use it.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import sys
import tomllib
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import IO, Any

MOST_BYTES = 1 << 28  # of a text; the largest record has a fiftieth of that
DEEPEST = 32  # values within values; a record has 7
MOST_DIGITS = 30  # of a whole number
BAD_USAGE, INTERRUPTED, BROKEN_PIPE = 2, 130, 141
LONGEST = 1000  # characters of a sentence


class InputError(Exception):
    """A sentence: which file, what is wrong with it, which value, and what to do."""


def one_line(text: str) -> str:
    """Without control characters, which would write elsewhere on a terminal, and without the middle of a long one."""
    text = re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]+", " ", text).strip()
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"


def say(error: Exception) -> None:
    if isinstance(error, OSError) and error.filename:
        error = InputError(f"{os.fsdecode(error.filename)}: {error.strerror}.")
    print(f"error: {one_line(str(error))}", file=sys.stderr)


def in_sentences(program: Callable[..., int]) -> Callable[..., int]:
    """Wraps a program: what is wrong with its files is one line, `error: ...`, and exit status 2. Interrupted, or
    where what reads its output has ended, it prints nothing."""

    @wraps(program)
    def run(*words: Any) -> int:  # noqa: ANN401, a program takes its words or none
        try:
            status = program(*words)
            sys.stdout.flush()
            return status
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes what is left as it ends
            return BROKEN_PIPE
        except KeyboardInterrupt:
            return INTERRUPTED
        except MemoryError:
            say(InputError("there is not enough memory for this: take a smaller file, or fewer rows."))
        except (InputError, OSError) as error:
            say(error)
        return BAD_USAGE

    return run


def opened(path: Path) -> IO[bytes]:
    """A regular file, for reading. A pipe is not waited for."""
    try:
        stream = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder: name a file.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): name a file that is there.") from None
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise InputError(f"{path}: is a device or a pipe: name a file.")
    return stream


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    with opened(path) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise InputError(f"{path}: has more than {most:,} bytes, which is the most that is read: take a smaller file.")
    return content


def decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text (byte {error.start}): write it anew as UTF-8.") from None


def read_text(path: Path) -> str:
    return decoded(path, read_bytes(path)).replace("\r\n", "\n")


def _depth(value: object) -> int:
    """How many values lie within each other."""
    nests = {dict, list}
    depth, level = 0, [value]
    while level:
        depth += 1
        inners = [outer.values() if type(outer) is dict else outer for outer in level if type(outer) in nests]
        # Most lists are samples, and hold no other one.
        level = [
            inner for some in inners if not nests.isdisjoint(map(type, some)) for inner in some if type(inner) in nests
        ]
    return depth


def json_object(path: Path, content: bytes, by: str) -> dict[str, Any]:
    """The JSON object in the bytes of a file; `by`: what makes such files. Numbers are finite, texts are Unicode."""

    def refuse(constant: str) -> None:
        raise InputError(f"{path}: {constant} is not JSON; a number that is not finite must be written as null.")

    def whole(text: str) -> int:
        if len(text) > MOST_DIGITS:
            raise InputError(f"{path}: {text[:20]}... has {len(text)} digits, no number here has more than a dozen.")
        return int(text)

    def real(text: str) -> float:
        if not math.isfinite(value := float(text)):
            raise InputError(f"{path}: {one_line(text)} is more than a number here can be.")
        return value

    text = decoded(path, content)
    made = f"was it written by {by}?"
    try:
        # Each number by itself only where there are such as need it: that takes twice the time.
        odd = re.search(r"[0-9]{20}|[eE]\+?[0-9]{3}", text)
        hooks: dict[str, Any] = {"parse_int": whole, "parse_float": real} if odd else {}
        document = json.loads(text, parse_constant=refuse, **hooks)
        depth = _depth(document)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: is not JSON ({error.msg} in line {error.lineno}); {made}") from None
    except RecursionError:
        depth = DEEPEST + 1
    if depth > DEEPEST:
        raise InputError(f"{path}: values lie more than {DEEPEST} deep within values; {made}")
    if not isinstance(document, dict):
        raise InputError(f"{path}: holds a {type(document).__name__}, not a JSON object; {made}")
    if re.search(r"\\u[dD][89a-fA-F]", text) and re.search("[\ud800-\udfff]", json.dumps(document, ensure_ascii=False)):
        raise InputError(f"{path}: holds half of a surrogate pair (\\ud800 to \\udfff), which is no text; {made}")
    return document


def read_json(path: Path, by: str = "`ladder run`") -> dict[str, Any]:
    return json_object(path, read_bytes(path), by)


def read_toml(path: Path) -> dict[str, Any]:
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # its own error is a ValueError, as is that of a long number
        raise InputError(f"{path}: is not TOML: {error}.") from None


def number(value: object, least: float = -math.inf) -> bool:
    """Whether it is a finite number, no truth value, of at least so much."""
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value < math.inf
