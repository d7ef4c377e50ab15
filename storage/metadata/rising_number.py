"""A number in a small file of a table that only rises, whoever writes it: how far somebody means to go, said before he looks
who is in the way.
"""

from ..file_io import FileIO
from .witness import WitnessOf, no_witness


class RisingNumber:
    """The number at a path; where no number is raised in one step, the highest that a file beside it has in its name."""

    def __init__(self, file_io: FileIO, path: str, of: WitnessOf = no_witness) -> None:
        self._file_io = file_io
        self._path = path
        self._of = of

    def raise_to(self, number: int) -> None:
        """Let it be at least this."""
        if self._file_io.is_local:
            self._file_io.raise_number(self._path, number, of=self._of())
            return
        lower = [each for each in self._named() if each < number]
        self._file_io.create_exclusively(f"{self._path}-{number}", b"", of=self._of())
        for item in lower:
            self._file_io.delete(f"{self._path}-{item}")

    def read(self) -> int:
        """What it is; 0 if nobody has written it, or it makes no sense."""
        written = self._file_io.read_number(self._path) or 0
        return written if self._file_io.is_local else max([written, *self._named()])

    def _named(self) -> list[int]:
        directory, _, name = self._path.rpartition("/")
        prefix = f"{name}-"
        listed = self._file_io.list_files(directory)
        numbers = [file.name.removeprefix(prefix) for file in listed if file.name.startswith(prefix)]
        return [int(number) for number in numbers if number.isdigit()]
