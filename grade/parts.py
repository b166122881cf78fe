"""A CUDA file as a list of its declarations, and what a submission changed of them. Only what may change is taken from
a submission: all else that is compiled is the template's text."""

from __future__ import annotations

import re
from dataclasses import dataclass

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<directive>^[ \t]*\#(?:[^\n\\]|\\\n|\\.)*)
      | (?P<string>(?:u8|u|U|L)?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"
                  | (?:u8|u|U|L)?"(?:[^"\\\n]|\\.)*" | (?:u8|u|U|L)?'(?:[^'\\\n]|\\.)*')
      | (?P<number>\.?[0-9](?:[eEpP][+-]|'[0-9A-Za-z]|[0-9A-Za-z_.])*)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<space>\s+)
      | (?P<sign>.)""",
    re.X | re.S | re.M,
)
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}


class UnreadableError(Exception):
    """The text is not one that can be graded, and why."""


@dataclass
class Token:
    kind: str
    text: str
    at: int


@dataclass
class Part:
    name: str
    text: str
    line: int
    words: tuple[str, ...]
    function: bool = False


def tokens(text: str) -> list[Token]:
    found = [
        Token(m.lastgroup if m.lastgroup != "mark" else "string", m.group(), m.start()) for m in TOKEN.finditer(text)
    ]
    kept = [t for t in found if t.kind not in ("space", "comment")]
    for t, after in zip(kept, [*kept, Token("", "", -1)][1:], strict=True):
        pair = t.text + after.text if after.at == t.at + 1 and t.kind == after.kind == "sign" else ""
        if pair in ("%:", "<%", "%>") or (t.kind == "sign" and t.text in "\\\"'"):
            line = text.count("\n", 0, t.at) + 1
            raise UnreadableError(
                f"line {line}: {pair or t.text!r} stands there, which cannot be read safely: write it plainly"
            )
    return kept


def _closing(all_tokens: list[Token], at: int, text: str) -> int:
    """The place of the bracket that closes the one at `at`."""
    awaited = []
    for i in range(at, len(all_tokens)):
        t = all_tokens[i]
        if t.kind != "sign":
            continue
        if t.text in OPEN:
            awaited.append(OPEN[t.text])
        elif t.text in CLOSE:
            if t.text != awaited.pop():
                raise UnreadableError(f"line {text.count(chr(10), 0, t.at) + 1}: this {t.text!r} closes nothing")
            if not awaited:
                return i
    raise UnreadableError(
        f"line {text.count(chr(10), 0, all_tokens[at].at) + 1}: {all_tokens[at].text!r} is never closed"
    )


def _name_of_function(head: list[Token], groups: list[int]) -> str:
    for at in reversed(groups):
        if (
            at
            and head[at - 1].kind == "word"
            and head[at - 1].text not in ("noexcept", "requires", "__launch_bounds__")
        ):
            return head[at - 1].text
    return ""


CARD, LESSON, LESSON_HEADER = "LADDER_VARIANT", "LADDER_LESSON", 'contract/lesson.hpp"'


def parts_of(text: str) -> list[Part]:
    """The declarations of a file in order; a namespace's braces are parts of their own."""
    text = text.replace("\r\n", "\n")
    all_tokens, found, begin = tokens(text), [], 0

    def end_at(last: int, name: str, function: bool = False) -> None:
        nonlocal begin
        piece = all_tokens[begin : last + 1]
        end = piece[-1].at + len(piece[-1].text)
        line = text.count("\n", 0, piece[0].at) + 1
        words = tuple(t.text for t in piece)
        begin = last + 1
        if name == LESSON or (words[0].startswith("#include") and words[0].rstrip().endswith(LESSON_HEADER)):
            return  # for readers alone, and no part of what was copied
        found.append(Part(name or " ".join(words)[:80], text[piece[0].at : end], line, words, function))

    i, groups = 0, []
    while i < len(all_tokens):
        t = all_tokens[i]
        head = all_tokens[begin : i + 1]
        if t.kind == "directive" and i == begin:
            end_at(i, " ".join(t.text.split()))
        elif t.kind != "sign":
            pass
        elif t.text == "}" and i == begin:
            end_at(i, "}")
        elif t.text == ";":
            words = [h.text for h in head]
            stop = next((n for n, h in enumerate(head) if h.text in ("=", "{")), len(head) - 1)
            named = [h.text for h in head[:stop] if h.kind == "word"]
            end_at(i, " ".join(words)[:80] if words[0] in ("using", "typedef") or not named else named[-1])
        elif t.text in OPEN:
            if t.text == "(":
                groups.append(i - begin)
            close = None
            if t.text == "{" and head[0].text == "namespace":
                end_at(i, " ".join(h.text for h in head))
            else:
                close = _closing(all_tokens, i, text)
                texts = [h.text for h in head]
                after = all_tokens[close + 1].text if close + 1 < len(all_tokens) else ""
                if t.text == "(" and head[0].text in (CARD, LESSON):
                    end_at(close, head[0].text)
                elif t.text == "{" and groups and "=" not in texts and after != ";":
                    end_at(close, _name_of_function(head, groups), True)
                i = close
        elif t.text in CLOSE:
            raise UnreadableError(f"line {text.count(chr(10), 0, t.at) + 1}: this {t.text!r} closes nothing")
        i += 1
        if begin == i:
            groups = []
    if begin < len(all_tokens):
        raise UnreadableError(f"line {text.count(chr(10), 0, all_tokens[begin].at) + 1}: what begins there has no end")
    return found


@dataclass
class Assembled:
    text: str
    changed: list[str]  # what may not change and did, in words
    functions: list[str]  # what was taken of the submission


def _refuse_words(part: Part) -> None:
    for word in part.words:
        if word in ("asm", "__asm", "__asm__", "_Pragma"):
            raise UnreadableError(f"{part.name}: {word!r} may not stand in what is graded: write it in CUDA C++")
        if word.lstrip().startswith("#") and not re.match(r"\s*#\s*pragma\s+unroll\b[^\\]*$", word):
            raise UnreadableError(f"{part.name}: {word.strip()!r}: of directives, #pragma unroll alone may stand there")


def assemble(template: str, submission: str, free: list[str], helpers: bool) -> Assembled:
    """The template with the submission's functions of these names, and its added functions before the first of them."""
    ours, theirs = parts_of(template), parts_of(submission)
    for name in free:
        if not any(p.function and p.name == name for p in ours):
            raise KeyError(name)
    known = {p.name for p in ours}
    changed, taken, added = [], {}, []
    for part in theirs:
        if part.name in free and part.function:
            if part.name in taken:
                changed.append(f"{part.name} is there twice")
            _refuse_words(part)
            taken[part.name] = part
        elif part.name not in known:
            device = {"__device__", "__global__", "constexpr"} & set(part.words)
            if helpers and part.function and device and "LADDER_VARIANT" not in part.words:
                _refuse_words(part)
                added.append(part)
            else:
                changed.append(f"line {part.line}: added {part.name}")
    for name in dict.fromkeys(p.name for p in ours if p.name not in free):
        mine = [p.words for p in ours if p.name == name]
        other = [p.words for p in theirs if p.name == name]
        if name == "LADDER_VARIANT" or mine == other:
            continue
        at = next((p.line for p in theirs if p.name == name), 0)
        changed.append(f"line {at}: changed {name}" if other else f"removed {name}")
    pieces, first = [], True
    for part in ours:
        if part.name in free and part.function:
            for own in [*(added if first else []), taken.get(part.name) or part]:
                pieces.append(f'#line {own.line} "submission.cu"\n{own.text}')
            first = False
        else:
            pieces.append(f'#line {part.line} "template.cu"\n{part.text}')
    missing = [name for name in free if name not in taken]
    changed += [f"removed {name}" for name in missing]
    return Assembled("\n".join(pieces) + "\n", changed, sorted(taken))
