"""The Spark session as a resource of Dagster, made of dagster-pyspark's: an asset that asks for `PySparkResource` gets it."""

from dataclasses import replace
from typing import Any

from dagster import InitResourceContext, ResourceDefinition
from dagster_pyspark import PySparkResource
from pydantic import Field
from pyspark.sql import SparkSession

from storage import InvalidRequest

from .resource_fields import refuse_unknown_fields, refuse_values
from .setting_values import check_spark_config, check_spark_master, check_spark_remote
from .settings import Settings
from .spark_session import has_lost_java, start_spark


class SparkResource(PySparkResource):
    """Gives a run its Spark session. Nothing starts before an asset uses it; a local session outlives the run."""

    master: str = ""
    remote: str = ""
    spark_config: dict[str, Any] = Field(default_factory=dict)

    def __init__(self, **fields: Any) -> None:
        refuse_unknown_fields("SparkResource", type(self).model_fields, fields)
        refuse_values(
            "SparkResource",
            fields,
            {"master": check_spark_master, "remote": check_spark_remote, "spark_config": check_spark_config},
            mappings=["spark_config"],
        )
        if fields.get("master") and fields.get("remote"):
            raise InvalidRequest("SparkResource: master and remote are two places where Spark runs: give one of them.")
        super().__init__(**fields)

    def setup_for_execution(self, context: InitResourceContext) -> None:
        """Start nothing yet: not every step uses Spark."""

    @property
    def spark_session(self) -> SparkSession:
        """The session, started when it is first asked for; the resource's settings count before those of the environment, also
        a master before an address of Spark Connect there.
        """
        if self._spark_session is None or has_lost_java():
            given = Settings.from_environment()
            settings = replace(
                given,
                spark_master=self.master or given.spark_master,
                spark_remote=self.remote or ("" if self.master else given.spark_remote),
                spark_config={**given.spark_config, **{key: str(value) for key, value in self.spark_config.items()}},
            )
            self._spark_session = start_spark(settings)
        return self._spark_session

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        """Stop a session of a Spark Connect server. A local one stays for the next step of this process."""
        is_remote = self.remote or (not self.master and Settings.from_environment().spark_remote)
        if self._spark_session is not None and is_remote:
            self._spark_session.stop()
            self._spark_session = None


def check_spark(name: str, given: Any) -> None:
    """Raise InvalidRequest for what gives no Spark session, nor is something that Dagster makes such a resource of."""
    # One that a run configures knows its class. Of an instance the property would start Spark.
    kind = getattr(given, "resource_cls", type(given))
    if not isinstance(given, ResourceDefinition) and not hasattr(kind, "spark_session"):
        raise InvalidRequest(f"{name}={given!r} gives no Spark session: write spark=SparkResource().")
