#!/usr/bin/env python3
"""lint_commands.py IN FOLDER: from the compile_commands.json IN to one in FOLDER, every source of the program once,
modules of one gate of every kernel; prints them. What Meson writes to include several of ours is put together once
more, in FOLDER: what they include is most of what a linter reads."""

import json
import os
import pathlib
import re
import shlex
import sys

MODULE = re.compile(r"gates/\w+\.fused\.f16\.d64\.64x64\.sim\.so\.p/")
UNITY = re.compile(r".*\.(a|so)[\d.]*\.p/[^/]*-unity\d+\.cpp")  # of a library: programs have a main function each
AT_ONCE = 4  # sources of Meson's; each unit takes half a minute


def compile_commands(build):
    """By source, or by output where one source has several commands."""
    commands = {}
    for command in json.load(open(build)):
        source = os.path.realpath(os.path.join(command["directory"], command["file"]))
        is_module = source.endswith("/module_sim.cc")
        if f"{os.sep}tests{os.sep}" in source:
            continue
        if not is_module or MODULE.match(command["output"]):
            commands[source, is_module and command["output"]] = command
    return commands


def together(commands, folder):
    """The sources of libraries by fours, each four a source of its own in `folder`, with the first one's command and
    what the others have of folders; then the rest."""
    of_libraries = sorted(source for source, _ in commands if UNITY.fullmatch(source))
    for i in range(0, len(of_libraries), AT_ONCE):
        some = of_libraries[i:i + AT_ONCE]
        own = folder / f"{i}.cpp"
        own.write_text("".join(f'#include "{source}"\n' for source in some))
        first, *others = (commands.pop((source, False)) for source in some)
        words = shlex.split(first["command"])
        words[words.index(first["file"])] = str(own)
        words += [word for other in others for word in shlex.split(other["command"]) if word.startswith(("-I", "-isystem"))]
        yield {**first, "file": str(own), "command": shlex.join(words)}
    yield from commands.values()


def main():
    build, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    commands = list(together(compile_commands(build), folder))
    (folder / "compile_commands.json").write_text(json.dumps(commands))
    print(*sorted({os.path.realpath(os.path.join(c["directory"], c["file"])) for c in commands}), sep="\n")


main()
