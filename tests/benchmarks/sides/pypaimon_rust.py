"""pypaimon with all of its native options, which use pypaimon-rust."""

from sides.pypaimon import PyPaimon


class PyPaimonRust(PyPaimon):
    options = {f"{one}.enabled": "true" for one in ("scan.native-plan", "read.native", "write.native", "commit.native")}  # noqa: RUF012


side = PyPaimonRust
