"""Copies of a checkout, in which tests edit sources and build."""

import os
import pathlib
import shutil

MODULE = ".so.p"  # how the folder of a module's objects ends


def copy_sources(root, to):
    """Those of `root`, without its history, build folders and dumps, into the folder `to`."""
    def left_out(folder, names):
        at_root = pathlib.Path(folder) == pathlib.Path(root)
        return [name for name in names if name.endswith(".safetensors")
                or at_root and (name == ".git" or name.startswith("build"))]

    shutil.copytree(root, to, ignore=left_out, dirs_exist_ok=True)


def copy_objects(build, to):
    """The objects of the program in `build` to the build folder `to` of a copy of the sources, so that
    its first build compiles only what differs: Ninja goes by commands and times of files. Where the
    folders do not lie alike to their sources, or a source was edited since, it compiles the more."""
    build, to = pathlib.Path(build), pathlib.Path(to)
    for folder, folders, names in os.walk(build):
        place = pathlib.Path(folder).relative_to(build)
        folders[:] = [name for name in folders if not name.endswith(MODULE) and (
            place.parts or name in ("debug", "gates", "reference"))]
        kept = [name for name in names if not place.parts and name.startswith(".ninja_")
                or name.endswith((".o", ".a", ".h", ".d")) and place.parts]
        (to / place).mkdir(parents=True, exist_ok=True)
        for name in kept:
            shutil.copy2(pathlib.Path(folder) / name, to / place / name)
