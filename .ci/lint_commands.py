#!/usr/bin/env python3
"""lint_commands.py IN FOLDER: from the compile_commands.json IN to one in FOLDER, every source of the program once,
modules of one gate of every kernel; prints them. What Meson writes to include several of ours is put together once
more, in FOLDER: what they include is most of what a linter reads."""

import itertools
import json
import os
import pathlib
import re
import shlex
import sys

MODULE = re.compile(r"gates/\w+\.fused\.f16\.d64\.64x64\.sim\.so\.p/")
UNITY = re.compile(r"(?P<folder>.*)\.p/[^/]*-unity\d+\.cpp")
AT_ONCE = 2  # sources of Meson's; with more of them, names of ours meet


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
    """The sources of a library by twos, each a source of its own in `folder`, with the first one's command."""
    of_library = lambda item: match["folder"] if (match := UNITY.fullmatch(item[0][0])) else item[0][0]
    for library, items in itertools.groupby(sorted(commands.items()), of_library):
        items = list(items)
        for i in range(0, len(items), AT_ONCE):
            some = items[i:i + AT_ONCE]
            (source, _), command = some[0]
            if len(some) > 1 and UNITY.fullmatch(source):
                words = shlex.split(command["command"])
                own = folder / f"{pathlib.Path(library).name}.{i}.cpp"
                own.write_text("".join(f'#include "{other}"\n' for (other, _), _ in some))
                words[words.index(command["file"])] = str(own)
                yield {**command, "file": str(own), "command": shlex.join(words)}
            else:
                yield from (command for _, command in some)


def main():
    build, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    commands = list(together(compile_commands(build), folder))
    (folder / "compile_commands.json").write_text(json.dumps(commands))
    print(*sorted({os.path.realpath(os.path.join(c["directory"], c["file"])) for c in commands}), sep="\n")


main()
