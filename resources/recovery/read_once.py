"""Tables, each opened once, and their snapshots, each read once: what is asked again and again while one question is answered."""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import replace

from storage import Snapshot, SnapshotRef, StorageError, Table


class ReadOnce:
    """A table as it was when it was first asked about."""

    def __init__(self, table: Table) -> None:
        self.table = table
        # Another name than it was opened by, if it has become main.
        self._branch = table.identifier.branch
        self._found: dict[int, Snapshot | None] = {}
        # Newest first, as far as somebody has gone back, with the places of numbers in it.
        self._history: list[Snapshot] = []
        self._places: dict[int, int] = {}
        self._earlier = table.snapshots.backwards()
        # Why nobody can go back further.
        self._refused: StorageError | None = None
        self._contributors: dict[int, Sequence[SnapshotRef]] = {}
        self._only_added: dict[int, bool] = {}

    def find(self, snapshot_id: int) -> Snapshot | None:
        """As `Snapshots.find`."""
        if snapshot_id not in self._found:
            self._found[snapshot_id] = self.table.snapshots.find(snapshot_id)
        return self._found[snapshot_id]

    def backwards(self) -> Iterator[Snapshot]:
        """As `Snapshots.backwards`."""
        return self._from(0)

    def _from(self, place: int) -> Iterator[Snapshot]:
        while place < len(self._history) or self._goes_on():
            yield self._history[place]
            place += 1

    def _goes_on(self) -> bool:
        """Whether there was a snapshot before those that have been read. Raises what reading it raises, each time."""
        if self._refused is not None:
            raise self._refused
        try:
            snapshot = next(self._earlier, None)
        except StorageError as error:
            self._refused = error
            raise
        if snapshot is None:
            return False
        self._places[snapshot.id] = len(self._history)
        self._history.append(snapshot)
        self._found[snapshot.id] = snapshot
        return True

    def contributors(self, snapshot_id: int) -> Sequence[SnapshotRef]:
        """The snapshots that the rows of a version come from, as `Table.contributors`."""
        if snapshot_id not in self._contributors:
            self._contributors[snapshot_id] = self.table.contributors({}, snapshot_id)
        return self._contributors[snapshot_id]

    def has_contributor(
        self,
        ref: SnapshotRef,
        is_meant: Callable[[SnapshotRef], bool],
        answers: MutableMapping[int, bool],
        after: int = 0,
    ) -> bool:
        """Whether a snapshot that the rows of a version come from, and that came `after` another one, is of a kind. `answers`:
        those that were given, by number; of one kind and one `after`.

        Of what only added files to the snapshot before it, the rows are its own and that one's: the files of each are looked
        at once, and not again for every snapshot that came later.
        """
        passed: list[int] = []
        number: int | None = ref.snapshot_id
        answer = False
        while number is not None and number > after:
            passed.append(number)
            if number in answers:
                answer = answers[number]
                break
            if not self._has_only_added(number):
                makers = (maker for maker in self.contributors(number) if maker.snapshot_id > after)
                answer = any(map(is_meant, makers))
                break
            snapshot = self._history[self._places[number]]
            if is_meant(replace(ref, branch=self._branch, snapshot_id=number, time_ms=snapshot.time_ms)):
                answer = True
                break
            number = self._history[self._places[number] + 1].id
        answers.update(dict.fromkeys(passed, answer))
        return answer

    def _has_only_added(self, number: int) -> bool:
        """Whether a snapshot has put files of its own beside those of the one before it, which is there, and no more."""
        if number not in self._only_added:
            try:
                self._only_added[number] = self._only_adds(number)
            except StorageError:
                # Whoever reads all of its files is told why, if they are needed.
                self._only_added[number] = False
        return self._only_added[number]

    def _only_adds(self, number: int) -> bool:
        while not self._history or self._history[-1].id >= number:
            if not self._goes_on():
                return False
        place = self._places.get(number)
        if place is None:
            return False
        snapshot = self._history[place]
        if not snapshot.changes_rows or snapshot.operation == "ROLLBACK":
            return False
        changes = self.table.changes_of(snapshot)
        return changes.files_added > 0 and changes.files_deleted == 0


class TablesReadOnce:
    """The tables of a catalog. `opened`: opens one by name, and raises NotFound if there is none."""

    def __init__(self, opened: Callable[[str], Table]) -> None:
        self._open = opened
        self._tables: dict[str, ReadOnce] = {}

    def __getitem__(self, name: str) -> ReadOnce:
        """Raises NotFound."""
        if name not in self._tables:
            self._tables[name] = ReadOnce(self._open(name))
        return self._tables[name]
