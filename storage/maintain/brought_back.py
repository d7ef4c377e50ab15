"""When the tags go that keep what came back from Paimon's Java library: once it can delete nothing of it any more.

That is so when all have expired that were there before it came back, as snapshots and as changelogs kept. With a tag Java
deletes what neither the tag before it has, nor the next one or the earliest snapshot: where there are two of before, the next one
may lack what came back later. Follows `docs/format.md`, "Branches".
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from ..errors import CorruptData, NotFound
from ..identifier import RESERVED_TAGS
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..metadata.tag import Tag
from ..write.brought_back import until_of
from .hold import delete_hold, held
from .references import ReferenceReader


def tags_in_vain(store: TableStore, earliest: Snapshot | None, reader: ReferenceReader | None = None) -> Iterator[Tag]:
    """The tags that are not needed any more if a snapshot is the earliest. One that is damaged stays."""
    names = {name: until for name in store.tags.names() if (until := until_of(name)) is not None}
    if not names or earliest is None:
        return
    kept_from = min([earliest.id, *store.changelogs.ids()])
    reader = reader or ReferenceReader()
    for name, until in names.items():
        if until >= kept_from:
            continue
        try:
            tag = store.tags.find(name)
            if tag is not None and not _may_be_needed(store, tag, until, earliest, reader):
                yield tag
        except (CorruptData, NotFound):
            continue


def _may_be_needed(store: TableStore, tag: Tag, until: int, earliest: Snapshot, reader: ReferenceReader) -> bool:
    """Whether Java's deletion of another tag may take files that the earliest snapshot has, if this tag goes."""
    others = {each.snapshot.id for each in store.tags.readable() if not each.name.startswith(RESERVED_TAGS)}
    if len([number for number in others if number <= until]) < 2:
        return False
    return not reader.data_files_of(store, tag.snapshot).isdisjoint(reader.data_files_of(store, earliest))


def hand_over_tags(source: TableStore, target: TableStore, common: int) -> None:
    """Give a branch those of another that are for snapshots which both have, up to a number."""
    for name in source.tags.names():
        tag = source.tags.find(name) if until_of(name) is not None else None
        if tag is not None and tag.snapshot.id <= common:
            with suppress(NotFound), held(target, tag.snapshot, partial(_is_still, source, tag)):
                target.tags.create(name, tag.snapshot)


def _is_still(source: TableStore, tag: Tag, hold: str) -> bool:
    """Whether a tag is what it was when it was read."""
    return source.tags.find(tag.name) == tag


def delete_tags_in_vain(store: TableStore) -> None:
    """Delete those that are not needed any more, and the files that nobody needs then."""
    for tag in list(tags_in_vain(store, store.snapshots.earliest())):
        delete_hold(store, tag)
