"""The main branch: what a table is when no branch is named.

Its metadata lies in the table's own directory until main is replaced with a branch. From then on the file `MAIN-BRANCH`
holds the name of that branch, and the branch is main. Source: the branch document; `docs/format.md`, "Branches".
"""

from ..errors import CorruptData, InvalidRequest
from ..file_io import FileIO
from ..identifier import MAIN_BRANCH, check_branch_name
from ..paths import TablePaths


def find_main(file_io: FileIO, root: str) -> TablePaths:
    """Where the metadata of main lies. Raises CorruptData if the file names no branch."""
    path = TablePaths(root).main_branch_file
    text = file_io.read_text_or_none(path)
    try:
        return TablePaths(root, MAIN_BRANCH if text is None else check_branch_name(text.strip()))
    except InvalidRequest as error:
        raise CorruptData(f"{path} names no branch: {error}") from None


def name_main(file_io: FileIO, before: TablePaths, branch: TablePaths) -> bool:
    """Make a branch the table's main, at once, if `before` still is; says whether the branch is main then."""
    path, wanted = branch.main_branch_file, branch.branch.encode()
    if before.branch == MAIN_BRANCH:
        named = file_io.create_exclusively(path, wanted)
    else:
        named = file_io.replace_if(path, before.branch.encode(), wanted)
    return named or find_main(file_io, branch.root) == branch
