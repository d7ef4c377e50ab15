"""The main branch: what a table is when no branch is named.

Its metadata lies in the table's own directory until main is replaced with a branch. From then on the file `MAIN-BRANCH`
holds the name of that branch, with a checksum, and the branch is main. Source: the branch document; `docs/format.md`, "Branches".
"""

import zlib

from ..directory_lock import Witness
from ..errors import CorruptData, InvalidRequest
from ..file_io import FileIO
from ..identifier import MAIN_BRANCH, check_branch_name
from ..paths import TablePaths


def find_main(file_io: FileIO, root: str) -> TablePaths:
    """Where the metadata of main lies. Raises CorruptData if the file names no branch."""
    path = TablePaths(root).main_branch_file
    text = file_io.read_text_or_none(path)
    if text is None:
        return TablePaths(root, MAIN_BRANCH)
    checksum, has_checksum, name = text.strip().partition("\n")
    if has_checksum and checksum != _checksum(name):
        raise CorruptData(f"{path} is damaged: the name in it does not have the checksum that it names.")
    try:
        # Earlier versions wrote the name alone.
        paths = TablePaths(root, check_branch_name(name or checksum))
    except InvalidRequest as error:
        raise CorruptData(f"{path} names no branch: {error}") from None
    if not has_checksum and not file_io.exists(paths.schema(0)):
        raise CorruptData(f"{path} is damaged: there is no branch {paths.branch!r}.")
    return paths


def name_main(file_io: FileIO, before: TablePaths, branch: TablePaths, of: Witness) -> bool:
    """Make a branch the table's main, at once, if `before` still is; says whether the branch is main then.

    Raises NotFound if the branch is another one than `of` tells.
    """
    path, wanted = branch.main_branch_file, _content(branch.branch)
    text = None if before.branch == MAIN_BRANCH else file_io.read_text_or_none(path)
    if before.branch == MAIN_BRANCH:
        named = file_io.create_exclusively(path, wanted, of=of)
    else:
        still = text is not None and find_main(file_io, branch.root) == before
        named = still and file_io.replace_if(path, (text or "").encode(), wanted, of=of)
    return named or find_main(file_io, branch.root) == branch


def unname_main(file_io: FileIO, branch: TablePaths) -> None:
    """Take the name of a branch away again that is not there."""
    file_io.delete_if(branch.main_branch_file, _content(branch.branch))


def _content(name: str) -> bytes:
    return f"{_checksum(name)}\n{name}\n".encode()


def _checksum(name: str) -> str:
    return f"{zlib.crc32(name.encode()):08x}"
