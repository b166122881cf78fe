"""Modules of submissions: compiled by the commands that the build has for the template, in the sandbox. CMake reads
nothing of a submission, and its card is the template's, written without loading the submission."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from grade.assignment import MistakeError


class ForeignError(Exception):
    """A module calls what no kernel can."""


@dataclass
class Bench:
    """A build, and how modules for one kind of device are made there."""

    build: Path
    home: str
    template: str
    compile: list[str]
    link: list[str]
    card: dict[str, object]
    imports: set[str]


# What a kernel may call beside what its template calls: the device, output, arithmetic.
KERNEL = re.compile(
    r"simt_\w+|__assert_fail|v?printf|puts|putchar|mem(cpy|set|move|cmp)|__stack_chk_fail|__wrap_mem\w+|__gmon_start__|__cuda\w+"
    r"|__(wrap___)?(asan|ubsan|sanitizer)_\w+|_ITM_\w+|__cxa_\w+|_Unwind_\w+|__gxx_personality_v0"
    r"|(exp|exp2|expm1|log|log2|log10|log1p|pow|sqrt|cbrt|fma|fmod|fabs|fmin|fmax|floor|ceil|round|rint|trunc|lround"
    r"|sin|cos|tan|tanh|hypot|ldexp|frexp|scalbn|nearbyint|erf|remainder|nextafter)[fl]?"
)


def imports_of(module: Path) -> set[str]:
    """What a module takes from elsewhere: no code that it runs can call anything else by a name."""
    listed = subprocess.run(["nm", "-D", "--undefined-only", module], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in listed.splitlines()}


def _words(commands: str, ending: str, mark: str) -> list[str]:
    for line in reversed(commands.splitlines()):
        if mark in line and ending in line:
            line = line.split(" && ")[1] if line.startswith(": && ") else line
            words = shlex.split(line.replace("\\$", "$"))
            return words[1:] if Path(words[0]).name in ("ccache", "sccache") else words
    return []


def bench_of(build: Path, home: str, template: str) -> Bench:
    target = f"{home}_{template}"
    worker = "ladder_worker_cuda" if home == "cuda" else "ladder_worker_simt"
    made = subprocess.run(["ninja", "-C", build, target, worker], capture_output=True, text=True)
    if made.returncode:
        raise MistakeError(
            f"{target} cannot be built in {build}: {(made.stdout + made.stderr).strip().splitlines()[-1]}"
        )
    listed = subprocess.run(["ninja", "-C", build, "-t", "commands", target], capture_output=True, text=True).stdout
    suffix = "cu" if home == "cuda" else "cpp"
    compile_words = _words(listed, f"wrappers/variants/{home}/{template}.{suffix}", " -c ")
    link_words = _words(listed, f"variants/{home}/{template}.so", " -shared ")
    if not compile_words or not link_words:
        raise MistakeError(f"{build}: its commands for {target} are not understood: build it by Ninja")
    card = json.loads((build / "variants" / home / f"{template}.json").read_text())
    imports = imports_of(build / "variants" / home / f"{template}.so")
    return Bench(build, home, template, compile_words, link_words, card, imports)


def _own(words: list[str], bench: Bench, source: Path, target: Path) -> list[str]:
    own, skip = [], 0
    for i, word in enumerate(words):
        if skip:
            skip -= 1
        elif word in ("-MT", "-MF"):
            skip = 1
        elif word in ("-MD",) or word.startswith("-Werror"):
            pass
        elif word == "-o":
            own += ["-o", str(target)]
            skip = 1
        elif f"/{bench.template}.c" in word and i and (words[i - 1] in ("-c", "-x") or word.endswith(".o")):
            own.append(str(source))
        else:
            own.append(word.replace("$ORIGIN/../../", f"{bench.build}/"))
    return own


def compile_module(
    bench: Bench, sandbox: list[str], text: str, name: str, folder: Path, modules: Path, seconds: float
) -> str:
    """Writes modules/HOME/NAME.so and its card; returns what the compiler said where it fails, else an empty text."""
    suffix = "cu" if bench.home == "cuda" else "cpp"
    inside = folder / f"compile_{bench.build.name}_{bench.home}"
    inside.mkdir(parents=True, exist_ok=True)
    source = folder / f"{name}.{suffix}"
    source.write_text(text, encoding="utf-8")
    object_file, module = inside / f"{name}.o", inside / f"{name}.so"
    limited = [*sandbox, "--write", str(inside), "--read", str(folder), "--cpu", f"{seconds:.0f}", "--file", "64", "--"]
    for words in (_own(bench.compile, bench, source, object_file), _own(bench.link, bench, object_file, module)):
        try:
            done = subprocess.run(
                [*limited, *words],
                cwd=bench.build,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=seconds + 5,
            )
        except subprocess.TimeoutExpired:
            return f"the compiler was at work for more than {seconds:.0f} s"
        if done.returncode:
            return done.stdout.strip()[:4000] or f"the compiler ended with status {done.returncode}"
    foreign = sorted(name for name in imports_of(module) - bench.imports if not KERNEL.fullmatch(name))
    if foreign:
        raise ForeignError(f"it calls {', '.join(foreign[:5])}: a kernel calls nothing of the host")
    place = modules / bench.home
    place.mkdir(parents=True, exist_ok=True)
    os.replace(module, place / f"{name}.so")
    (place / f"{name}.json").write_text(json.dumps({**bench.card, "id": name}))
    with (modules / "expected.txt").open("a") as expected:
        expected.write(f"{bench.home}/{name}\n")
    return ""
