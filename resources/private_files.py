"""Files that may hold secrets: their owner reads them, and nobody else."""

import os
from contextlib import suppress
from pathlib import Path

_OF_OTHERS = 0o077
# Directories of this name are the platform's own, whoever made them.
_OWN_NAME = ".snapline"


def make_private_directory(path: Path) -> None:
    """Create a directory that only its owner can look into. One that is there keeps its mode, unless it is called
    `.snapline`: then others lose theirs.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if path.name == _OWN_NAME:
            _close(path)


def write_private(path: Path, text: str) -> None:
    """Put a text in the place of a file at once; nobody else could read it at any moment."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with suppress(FileNotFoundError):
        draft.unlink()
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)


def keep_private(path: Path) -> None:
    """Take a file away from others, if there is one that they may read; create none."""
    with suppress(FileNotFoundError):
        _close(path)


def _close(path: Path) -> None:
    mode = path.stat().st_mode
    if mode & _OF_OTHERS:
        # Of somebody else's file nothing can be said.
        with suppress(PermissionError):
            path.chmod(mode & ~_OF_OTHERS & 0o7777)
