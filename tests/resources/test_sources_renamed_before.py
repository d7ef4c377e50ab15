"""What main takes over, or goes back to, once its source is called something else, has that source once, by its name of today."""

import pytest

from resources import Session

WAYS = ("merge", "fast_forward", "replace_main", "merge after a compaction", "rollback")
NAMES = ("free", "of another table", "swapped")


@pytest.mark.parametrize("old_name", NAMES)
@pytest.mark.parametrize("way", WAYS)
def test_a_source_that_was_renamed_meanwhile_comes_once(session: Session, way: str, old_name: str) -> None:
    def run(*statements: str) -> None:
        for statement in statements:
            session.sql(statement, "duckdb")

    run("CREATE DATABASE db", "CREATE TABLE db.t (word STRING)", "INSERT INTO db.t VALUES ('own')")
    for name in ("old", "other"):
        run(f"CREATE TABLE db.{name} (word STRING)", f"INSERT INTO db.{name} VALUES ('1')")
        run(f"INSERT INTO db.{name} VALUES ('2')")
    if way == "rollback":
        run("INSERT INTO db.t SELECT * FROM db.old", "INSERT INTO db.t VALUES ('more')")
    else:
        session.table("db.t").branches.create("b", snapshot_id=1)
        run("INSERT INTO db.`t$branch_b` SELECT * FROM db.old")
    run("ALTER TABLE db.old RENAME TO db.new")
    if old_name == "of another table":
        run("CREATE TABLE db.old (word STRING)", "INSERT INTO db.old VALUES ('3')", "INSERT INTO db.old VALUES ('4')")
    elif old_name == "swapped":
        run("ALTER TABLE db.other RENAME TO db.old")
    table = session.table("db.t")
    if way == "rollback":
        table.rollback_to(2)
    else:
        if way == "merge after a compaction":
            table.on_branch("b").compact(full=True)
        method = way.split()[0]
        getattr(table.branches, method)("b", discard_main=True)
    head = session.table("db.t").last_change()
    assert head is not None
    sources = {str(ref) for ref in session.lineage(head, "up").snapshots if ref.table != "t"}
    assert sources == {"db.new@2"}
    made = {str(ref) for ref in session.lineage(session.ref("db.new@2"), "down").snapshots}
    assert str(head) in made
