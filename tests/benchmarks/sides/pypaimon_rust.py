"""pypaimon with all of its native options, which use pypaimon-rust."""

from sides.pypaimon import PyPaimon


class PyPaimonRust(PyPaimon):
    options = {  # noqa: RUF012
        f"{option}.enabled": "true" for option in ("scan.native-plan", "read.native", "write.native", "commit.native")
    }


side = PyPaimonRust
