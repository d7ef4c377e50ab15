"""Tags that come and go by themselves: created once a period is over, deleted once their time is.

A tag of a period names the last snapshot from before the period's end (and the delay that late data is given), whenever it
is made: by the next commit, or by a schedule. Source: the tag document, and `docs/format.md`, "Tags".
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

from ..errors import AlreadyExists, InvalidRequest, NotFound
from ..identifier import HOLD_PREFIX
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..metadata.tag import Tag
from ..metadata.trouble import TAG_DELETION, afterwards
from ..options import TableOptions
from ..write.commit_time import HOUR_MS
from .age import believed_until, now_of_ages
from .brought_back import delete_tags_in_vain
from .hold import delete_files_of, delete_those_unneeded, held, is_kept, only_tagged

_HOURS = {"hourly": 1, "two-hours": 2, "daily": 24}
_FORMATS = {
    "with_dashes": ("%Y-%m-%d", "%Y-%m-%d %H"),
    "without_dashes": ("%Y%m%d.", "%Y%m%d %H"),
    "without_dashes_and_spaces": ("%Y%m%d.", "%Y%m%d%H."),
}


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of local time, and the name of the tag that stands for it."""

    name: str
    end: dt.datetime


def last_period(options: TableOptions, now: dt.datetime) -> Period | None:
    """The latest period that is over at a local time, its delay included; None if tags are not created by themselves.

    Raises InvalidRequest for options that make no sense.
    """
    if options.tag_create_interval_ms is not None:
        return _by_interval(options, now)
    if options.tag_automatic_creation == "none":
        return None
    if options.tag_automatic_creation != "process-time" or options.tag_creation_period not in _HOURS:
        raise InvalidRequest(
            f"Options 'tag.automatic-creation' = {options.tag_automatic_creation!r}, 'tag.creation-period' = "
            f"{options.tag_creation_period!r}: supported are none and process-time, and {', '.join(_HOURS)}."
        )
    hours = _HOURS[options.tag_creation_period]
    reached = now - dt.timedelta(milliseconds=options.tag_creation_delay_ms)
    end = reached.replace(hour=reached.hour // hours * hours, minute=0, second=0, microsecond=0)
    start = end - dt.timedelta(hours=hours)
    return Period(start.strftime(_format(options, daily=hours == 24)), end + (now - reached))


def makes_tags_of_periods(options: TableOptions) -> bool:
    """Whether tags are created by themselves."""
    return options.tag_create_interval_ms is not None or options.tag_automatic_creation != "none"


def _format(options: TableOptions, *, daily: bool) -> str:
    if options.tag_period_formatter not in _FORMATS:
        raise InvalidRequest(
            f"Option 'tag.period-formatter' = {options.tag_period_formatter!r}. Supported: {', '.join(_FORMATS)}."
        )
    # Names of digits alone would hide snapshots: a dot behind them makes them names.
    return _FORMATS[options.tag_period_formatter][0 if daily else 1]


def _by_interval(options: TableOptions, now: dt.datetime) -> Period:
    """The document's options: a tag every so many days at a time of day, named after the day."""
    interval = dt.timedelta(milliseconds=options.tag_create_interval_ms or 0)
    if interval < dt.timedelta(days=1) or interval % dt.timedelta(days=1):
        raise InvalidRequest("Option 'tag.create-interval' is a whole number of days, 1 d at the least.")
    try:
        clock = dt.datetime.strptime(options.tag_create_time, "%H:%M").time()
    except ValueError:
        raise InvalidRequest(
            f"Option 'tag.create-time' = {options.tag_create_time!r} is no time such as 03:30."
        ) from None
    day = now.date() if now.time() >= clock else now.date() - dt.timedelta(days=1)
    due = day.toordinal() // interval.days * interval.days
    day = dt.date.fromordinal(due)
    return Period(day.isoformat(), dt.datetime.combine(day, clock))


def create_due_tag(store: TableStore) -> Tag | None:
    """Create the tag of the last period that is over, and delete the oldest beyond `tag.num-retained-max`.

    None if it is there already, if there was no snapshot before the period's end, or if the options ask for none.
    """
    period = _due(store)
    if period is None:
        return None
    snapshot = _last_before(store, period.end)
    if snapshot is None:
        return None
    retained = store.options.tag_default_time_retained_ms
    try:
        tag = create_tag(store, period.name, snapshot, retained_ms=retained)
    except AlreadyExists:
        # Somebody else was due at the same time.
        return None
    most = store.options.tag_num_retained_max
    if most is not None:
        afterwards(store, TAG_DELETION, lambda: _delete_oldest(store, most, period.end), list[str]())
    return tag


def _due(store: TableStore) -> Period | None:
    """The last period that is over, by the clock that ages are told by, and has no tag. It is asked once the own clock says that
    one is due: where that is ahead, the tag of a later period would take its name, and lack what is still to come.
    """
    period = None
    for now_ms in (store.clock.now_ms, lambda: now_of_ages(store)):
        period = last_period(store.options, dt.datetime.fromtimestamp(now_ms() / 1000))
        if period is None or store.tags.find(period.name) is not None:
            return None
    return period


def _last_before(store: TableStore, end: dt.datetime) -> Snapshot | None:
    return store.snapshots.at_or_before(int(end.timestamp() * 1000) - 1)


def create_tag(
    store: TableStore, name: str, snapshot: Snapshot, *, replace: bool = False, retained_ms: int | None = None
) -> Tag:
    """Name a snapshot. Raises AlreadyExists, or NotFound if the snapshot expires meanwhile: there is no tag then.

    It is held until it has its name, so that nobody sees a name whose files are about to go.
    """
    with held(store, snapshot, lambda hold: is_kept(store, snapshot, hold)):
        replaced = store.tags.find(name) if replace else None
        tag = store.tags.create(name, snapshot, replace=replace, retained_ms=retained_ms, now_ms=store.clock.now_ms())
    if not store.is_same_table() and store.tags.delete_if(tag):
        store.refuse_other_table()
    store.refuse_moved(f"Tag {name!r}")
    if replaced is not None and replaced.snapshot.identity != snapshot.identity:
        delete_files_of(store, replaced)
    return tag


def _delete_oldest(store: TableStore, most: int, until: dt.datetime) -> list[str]:
    """Delete the oldest tags of periods beyond a number; returns their names. Those that a clock that was ahead has made go
    first; what is after `until` and not that far ahead does not count: it would displace others.
    """
    dated = sorted(
        (
            (dt.datetime.min if is_ahead(store, begin) else begin, tag.name, tag)
            for tag, begin in _automatic(store)
            if begin <= until or is_ahead(store, begin)
        ),
        key=itemgetter(0, 1),
    )
    return [name for _, name, tag in dated[:-most] if _delete(store, tag) is not None]


def is_ahead(store: TableStore, time: dt.datetime | None) -> bool:
    """Whether a local time is of a clock that is not believed: it is ahead of the own one by more than an hour."""
    return time is not None and time > _now(store) + dt.timedelta(milliseconds=HOUR_MS)


def ahead_by_name(store: TableStore) -> list[str]:
    """The tags of periods that a clock which was ahead has made, by the periods that their names tell."""
    if not makes_tags_of_periods(store.options):
        return []
    return [tag.name for tag, begin in _automatic(store) if is_ahead(store, begin)]


def made_too_early(store: TableStore, history: Sequence[Snapshot]) -> dict[str, Snapshot]:
    """The tags of periods that a clock which was ahead has made before the period was over, and that lack what came until then;
    with the snapshot that each ought to name, as far as that is there still. `history`: the snapshots of the branch.

    Names tell local times, and other machines may have another zone: so it needs a commit within the hour before the tag's file
    was written that came from such a clock, by the time of its file.
    """
    if not makes_tags_of_periods(store.options):
        return {}
    tags = _written(store, store.paths.tag_directory)
    commits = _written(store, store.paths.snapshot_directory)
    times = [(commits.get(f"snapshot-{each.id}"), each.time_ms) for each in history]
    ahead = [file_ms for file_ms, time_ms in times if file_ms is not None and time_ms > file_ms + HOUR_MS]
    early = {}
    for tag, begin in _automatic(store) if ahead else ():
        end, file_ms = _end(store.options, begin), tags.get(f"tag-{tag.name}")
        if file_ms is None or end is None or file_ms >= end.timestamp() * 1000 - HOUR_MS:
            continue
        snapshot = _last_before(store, end)
        is_of_such = any(0 <= file_ms - each <= HOUR_MS for each in ahead)
        if is_of_such and snapshot is not None and snapshot.id > tag.snapshot.id:
            early[tag.name] = snapshot
    return early


def _written(store: TableStore, directory: str) -> dict[str, int]:
    """When the files of a directory were written, by the clock of the file system."""
    files = store.file_io.list_files(directory)
    return {file.name: file.modified_ms for file in files if file.modified_ms is not None}


def _end(options: TableOptions, begin: dt.datetime) -> dt.datetime | None:
    """When a period is over, the delay included, whose name tells when it begins; None if there is no such time."""
    try:
        if options.tag_create_interval_ms is not None:
            # Named after the day at which it ends.
            return _by_interval(options, dt.datetime.combine(begin, dt.time.max)).end
        length = dt.timedelta(hours=_HOURS[options.tag_creation_period])
        return begin + length + dt.timedelta(milliseconds=options.tag_creation_delay_ms)
    except (OverflowError, KeyError):
        return None


def _now(store: TableStore) -> dt.datetime:
    return dt.datetime.fromtimestamp(store.clock.now_ms() / 1000)


def _believable(store: TableStore, tag: Tag, now: dt.datetime) -> dt.datetime:
    """When a tag was made whose own time is not believed: when its file was written; if that is ahead as well, at the first
    snapshot since its own that is not; now if there is none.
    """
    path = store.paths.tag(tag.name)
    files = store.file_io.list_files(store.paths.tag_directory)
    times = [file.modified_ms for file in files if file.modified_ms and path.endswith(f"/{file.name}")]
    later = (store.snapshots.find(number) for number in store.snapshots.ids() if number > tag.snapshot.id)
    known = chain(times, (snapshot.time_ms for snapshot in later if snapshot is not None))
    return next((time for each in known if (time := dt.datetime.fromtimestamp(each / 1000)) <= now), now)


def _automatic(store: TableStore) -> Iterator[tuple[Tag, dt.datetime]]:
    """Tags whose names are those of periods, with the moment that the name tells."""
    daily = store.options.tag_create_interval_ms is not None or store.options.tag_creation_period == "daily"
    name_format = (
        "%Y-%m-%d" if store.options.tag_create_interval_ms is not None else _format(store.options, daily=daily)
    )
    for tag in store.tags.all():
        try:
            begin = dt.datetime.strptime(tag.name, name_format)
        except ValueError:
            continue
        yield tag, begin


def delete_tag(store: TableStore, name: str) -> list[str]:
    """Forget a name, and delete the files that nobody needs then; returns those. Raises NotFound that lists the tags, and
    if the name was given to another snapshot meanwhile.
    """
    gone = _delete(store, store.tags.get(name))
    if gone is None:
        raise NotFound(f"Tag {name!r} was deleted or replaced meanwhile. Nothing is done.")
    return gone


def _delete(store: TableStore, tag: Tag) -> list[str] | None:
    """Delete a tag as it was read, and the files that nobody needs then; None if it is another one by now."""
    candidates = only_tagged(store, tag)
    return delete_those_unneeded(store, candidates) if store.tags.delete_if(tag) else None


def expire_tags(store: TableStore) -> list[str]:
    """Delete the tags whose retention is over, but for holds, which orphan cleaning ends; returns their names."""
    retained_tags = [
        tag
        for tag in store.tags.all()
        if tag.time_retained_seconds is not None and not tag.name.startswith(HOLD_PREFIX)
    ]
    now_ms = now_of_ages(store) if retained_tags else store.clock.now_ms()
    now = dt.datetime.fromtimestamp(now_ms / 1000)
    latest_ms = max((int(tag.create_time.timestamp() * 1000) for tag in retained_tags if tag.create_time), default=0)
    believed = dt.datetime.fromtimestamp(believed_until(store, now_ms, latest_ms) / 1000)
    gone = []
    for tag in retained_tags:
        created, retained = tag.create_time, tag.time_retained_seconds
        if created is None or retained is None:
            continue
        # A clock that was back when the tag was made would let it go early: it is no older than its snapshot.
        snapshot_time = dt.datetime.fromtimestamp(tag.snapshot.time_ms / 1000)
        if snapshot_time <= now:
            created = max(created, snapshot_time)
        if created > believed:
            created = _believable(store, tag, now)
        # Two local times are an hour too far apart, or too near, when summer time begins or ends in between. Of an hour that is
        # there twice the later one is meant, so that no tag goes too early.
        is_over = now_ms / 1000 - created.replace(fold=1).timestamp() > retained
        if is_over and _delete(store, tag) is not None:
            gone.append(tag.name)
    delete_tags_in_vain(store)
    return gone
