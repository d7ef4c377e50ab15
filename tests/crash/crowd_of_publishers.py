"""Publishers that move amounts between two tables, each on a branch of both: the sum is right in every consistent view.

    python crowd_of_publishers.py ARGUMENTS

ARGUMENTS is a JSON object of `Publishers`. Prints one JSON object: how many transfers were acknowledged, how many views were
read, how many processes were disturbed, and all that is wrong.
"""

import json
import random
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage import AlreadyExists, Catalog, CommitConflict, NotFound, StorageError
from tests.crash.crowd import PAUSE_S, Part, Stage, is_overtaken, unless_in_the_way

TABLES = ("bank.left", "bank.right")
ACCOUNTS, EACH = 16, 1000
# How much longer to go on if nothing was published yet, on a loaded machine.
_MORE_S = 120


@dataclass(frozen=True)
class Publishers(Stage):
    """Who is there, and for how long."""

    seconds: float = 10
    publishers: int = 2
    readers: int = 2

    def catalog(self) -> Catalog:
        return Catalog(f"{self.directory}/warehouse")

    def note(self, name: str) -> Path:
        return Path(self.directory) / f"note-{name}"

    def prepare(self) -> None:
        schema = pa.schema([("account", pa.int64()), ("amount", pa.int64())])
        for name in TABLES:
            table = self.catalog().create_table(name, schema, primary_key=["account"], options={"bucket": 1})
            table.write(pa.table({"account": range(ACCOUNTS), "amount": [EACH] * ACCOUNTS}, schema))
        self.note("begun").touch()

    def publish(self, number: int) -> None:
        """Move amounts from one table to the other. Whoever finds something left over by others ends it first."""
        chance = random.Random(self.seed + number)
        # Who was killed has no more time for it than the others.
        until = self.note("begun").stat().st_mtime + self.seconds
        while not self.is_over and (
            time.time() < until or (not self._count("published") and time.time() < until + _MORE_S)
        ):
            try:
                self._transfer(number, chance)
            except CommitConflict:
                unless_in_the_way(lambda: self.catalog().recover(undo=chance.random() < 0.5))
        unless_in_the_way(lambda: self.catalog().recover())

    def _transfer(self, number: int, chance: random.Random) -> None:
        catalog, branch = self.catalog(), f"transfer-{number}"
        work = catalog.branch_set(branch, TABLES)
        try:
            work.create()
        except AlreadyExists:
            # Of a transfer that ended before it was published, or that was published and died.
            self._delete(branch)
            return
        amount = chance.randrange(1, 20)
        for name, sign in zip(TABLES, (-1, 1), strict=True):
            table, account = catalog.table(f"{name}$branch_{branch}"), chance.randrange(ACCOUNTS)
            held = table.to_arrow(where=f"account = {account}")["amount"][0].as_py()
            table.update(f"account = {account}", {"amount": held + sign * amount})
        work.publish()
        with self.note(f"published-{number}").open("ab") as file:
            file.write(b".")
        self._delete(branch)

    def _delete(self, branch: str) -> None:
        # Somebody who recovers may be deleting it as well.
        with suppress(NotFound):
            self.catalog().branch_set(branch, TABLES).delete()

    def read(self, number: int) -> None:
        while not self.is_over:
            try:
                view = self.catalog().consistent(TABLES)
                total = sum(sum(table.to_arrow()["amount"].to_pylist()) for table in view.values())
            except StorageError as error:
                if not is_overtaken(error) and not isinstance(error, CommitConflict):
                    raise
                continue
            if total != 2 * ACCOUNTS * EACH:
                raise AssertionError(f"a view of both tables adds up to {total}, and not to {2 * ACCOUNTS * EACH}")
            with self.note(f"read-{number}").open("ab") as file:
                file.write(b".")
            time.sleep(PAUSE_S)

    def expire(self) -> None:
        while not self.is_over:
            for name in TABLES:
                unless_in_the_way(lambda name=name: self.catalog().table(name).expire(retain_last=3))
            time.sleep(5 * PAUSE_S)

    def verdict(self) -> list[str]:
        """What is wrong once all have gone. Nobody may be blocked: what is open can be ended, and the next one publishes."""
        catalog = self.catalog()
        catalog.recover()
        wrong = []
        tables = [catalog.table(name) for name in TABLES]
        total = sum(sum(table.to_arrow()["amount"].to_pylist()) for table in tables)
        if total != 2 * ACCOUNTS * EACH:
            wrong.append(f"in the end both tables add up to {total}, and not to {2 * ACCOUNTS * EACH}")
        wrong += [str(problem) for table in tables for problem in table.check(deep=True)]
        work = catalog.branch_set("last", TABLES)
        work.create()
        tables[0].on_branch("last").update(
            "account = 0", {"amount": tables[0].to_arrow(where="account = 0")["amount"][0].as_py()}
        )
        work.publish()
        return wrong

    def act(self) -> dict[str, Any]:
        parts = [
            Part(f"publisher {index}", partial(self.publish, index), leading=True) for index in range(self.publishers)
        ]
        parts += [Part(f"reader {index}", partial(self.read, index)) for index in range(self.readers)]
        outcome = self.run(self.prepare, [*parts, Part("expirer", self.expire)], self.verdict)
        return outcome | {"published": self._count("published"), "read": self._count("read")}

    def _count(self, what: str) -> int:
        return sum(path.stat().st_size for path in Path(self.directory).glob(f"note-{what}-*"))


if __name__ == "__main__":
    print(json.dumps(Publishers(**json.loads(sys.argv[1])).act()))
