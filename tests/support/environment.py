"""Virtual environments with what the tests take from PyPI."""

import re
import subprocess
import venv


def environment_in(folder, *wanted):
    """The Python of the virtual environment `folder`, made once, with what pip is to install: words of its command
    line. None where it cannot be had here, with the reason printed."""
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    try:
        venv.create(folder, clear=True, with_pip=True)
    except subprocess.CalledProcessError:
        print("skipped: this Python makes no virtual environments (Debian: apt-get install python3-venv)")
        return None
    # What is imported is compiled then: the tenth part of what is installed.
    done = subprocess.run([python, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--no-compile", *wanted],
                          capture_output=True, text=True, timeout=600)
    if re.search("NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError", done.stderr) and done.returncode:
        print("skipped: pip does not reach PyPI:", done.stderr[-1000:])
        return None
    if done.returncode:
        raise SystemExit(f"pip does not install {' '.join(map(str, wanted))}:\n{done.stderr[-4000:]}")
    (folder / "complete").touch()
    return python
