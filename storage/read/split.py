"""A split: the part of a scan that one task reads. Pickles, so that it can travel to a Spark executor."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ..format.deletion_vector import DeletionVector
from ..lsm.sorted_run import Section
from ..lsm.system_columns import VALUE_KIND
from ..metadata.history import told_of_expiry
from ..metadata.manifest import DataFile
from ..metadata.schema import KEY_PREFIX
from .origins import Origins
from .row_metadata import FileSources
from .split_read import ReadRequest, check_file, read_run, read_sections

_PLAIN_NAME = re.compile(r"[\w.-]+", re.ASCII)


@dataclass(frozen=True)
class Split:
    """Sections of one bucket."""

    request: ReadRequest
    partition: bytes
    bucket: int
    directory: str
    sections: tuple[Section, ...]
    deletion_vectors: Mapping[str, DeletionVector] = field(default_factory=dict)
    # Which snapshots wrote the rows of its files, if somebody asks.
    origins: Origins = field(default_factory=Origins)

    @property
    def needs_merge(self) -> bool:
        """Whether reading the files one after another would show rows that are overwritten or deleted."""
        keyed = bool(self.request.store.schema.primary_keys)
        # Without a key, several files of a section hold columns of the same rows.
        return any(len(section.runs) > 1 or (keyed and section.needs_merge) for section in self.sections)

    @property
    def files(self) -> list[DataFile]:
        """The data files that are read."""
        return [file for section in self.sections for file in section.files]

    @property
    def file_paths(self) -> list[str]:
        """The paths of the data files that are read."""
        return [self.request.store.data_path(self.directory, file) for file in self.files]

    @property
    def size_bytes(self) -> int:
        """The size of the data files that are read."""
        return sum(section.size_bytes for section in self.sections)

    @property
    def may_hold_deletes(self) -> bool:
        """Whether a file may hold rows of kind -U or -D, so that `_VALUE_KIND` has to be looked at.

        The count in the manifest is no proof: pypaimon writes 0 for every file.
        """
        keyed = bool(self.request.store.schema.primary_keys)
        return keyed and any(file.level == 0 for section in self.sections for file in section.files)

    @property
    def row_count_is_exact(self) -> bool:
        """Whether `row_count_unmerged` is the number of rows, without reading any."""
        counted = all(vector.cardinality is not None for vector in self.deletion_vectors.values())
        return not self.needs_merge and not self.may_hold_deletes and counted

    @property
    def row_count_unmerged(self) -> int:
        """Rows in the files that are not marked as deleted: an upper bound, if it is not exact."""
        deleted = sum(vector.cardinality or 0 for vector in self.deletion_vectors.values())
        return sum(file.row_count for file in self.files) - deleted

    @property
    def can_be_read_natively(self) -> bool:
        """Whether any Parquet reader gives the table's rows: no merge, no older schema, nothing to fill in.

        Where it `may_hold_deletes`, the reader has to keep rows of `_VALUE_KIND` 0 and 2 only.
        """
        return not self.needs_merge and not self.deletion_vectors and self._is_plain

    @property
    def is_told_by_keys(self) -> bool:
        """Whether any Parquet reader that leaves out some rows of the files gives the table's rows: of each key one row of the
        files stands as it is, and keys (and `sequence.field`) tell which; or vectors mark the others.
        """
        options = self.request.store.options
        is_merged_by_key = bool(self.request.store.schema.primary_keys) and options.merge_engine == "deduplicate"
        # By names of other letters engines may know files otherwise.
        named_plainly = all(_PLAIN_NAME.fullmatch(file.name) for file in self.files)
        return (is_merged_by_key or not self.needs_merge) and self._is_plain and named_plainly

    @property
    def _is_plain(self) -> bool:
        """Whether the columns of the files are those that are read."""
        schema = self.request.store.schema
        return not self.request.metadata and all(
            file.schema_id == schema.id and file.format == "parquet" and file.write_columns is None
            for file in self.files
        )

    def check_files(self, *, whole: bool) -> bool:
        """Raise CorruptData if a file that another reader is about to read is damaged, as far as its end and its size
        tell, or `whole`, its every byte: not every reader looks at the checksums of pages.

        Says whether one of them `has_constant_beside_nulls`.
        """
        files = self.files
        with told_of_expiry(self.request.store, self.request.snapshot):
            constants_beside_nulls = [
                check_file(self.request.store, self.directory, file, whole=whole) for file in files
            ]
        return any(constants_beside_nulls)

    def read(self, *, use_threads: bool = True) -> Iterator[pa.RecordBatch]:
        """The rows of the split, merged and filtered, as batches of `request.schema`; none of them empty.

        Say `use_threads=False` where other splits are read at the same time.
        """
        with told_of_expiry(self.request.store, self.request.snapshot):
            yield from read_sections(
                self.request,
                self.partition,
                self.directory,
                self.sections,
                self.deletion_vectors,
                use_threads=use_threads,
                sources=FileSources(self.bucket, self.origins),
            )

    def read_with_kinds(self) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        """The merged rows with the kind of each (int8), deletes among them."""
        schema = self.request.store.schema
        if not schema.primary_keys or (self.deletion_vectors and not self.needs_merge):
            for rows in self.read():
                yield pa.array(np.zeros(rows.num_rows, np.int8)), rows
            return
        keys = set(schema.trimmed_primary_keys)
        names = [f"{KEY_PREFIX}{name}" if name in keys else name for name in self.request.columns]
        for section in self.sections:
            for run in self._run(section):
                yield run.column(VALUE_KIND), run.select(names).rename_columns(list(self.request.columns))

    def _run(self, section: Section) -> Iterator[pa.RecordBatch]:
        with told_of_expiry(self.request.store, self.request.snapshot):
            vectors = self.deletion_vectors
            yield from read_run(self.request, self.partition, self.directory, section, vectors, keep_deletes=True)
