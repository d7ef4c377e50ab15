"""Spark's settings for sizes, cores and the like: values that Spark cannot read, and misspelt names, told without Java.

Only the settings that a cluster is laid out with: Spark itself passes over names that it does not know, and packages bring
settings of their own, so that a name is refused only if it differs from one of these in one word, by a letter or two.
"""

import difflib
import re
from collections.abc import Mapping

_SIZE, _TIME, _COUNT, _COUNT_OR_NONE, _SWITCH, _TEXT = "size", "time", "count", "count or 0", "switch", "text"
_KINDS: Mapping[str, tuple[re.Pattern[str], str]] = {
    _SIZE: (re.compile(r"\d+(b|[kmgtp]b?)?", re.I), "a size such as 512m or 4g"),
    _TIME: (re.compile(r"\d+(us|ms|s|m|min|h|d)?", re.I), "a time such as 500ms, 30s or 2min"),
    _COUNT: (re.compile(r"0*[1-9]\d*"), "a whole number, at least 1"),
    _COUNT_OR_NONE: (re.compile(r"\d+"), "a whole number"),
    _SWITCH: (re.compile(r"true|false", re.I), "true or false"),
    _TEXT: (re.compile(r".*", re.S), "a text"),
}
_OF_KIND = {
    _SIZE: """driver.memory driver.memoryOverhead driver.maxResultSize executor.memory executor.memoryOverhead
        executor.pyspark.memory memory.offHeap.size kryoserializer.buffer kryoserializer.buffer.max broadcast.blockSize
        reducer.maxSizeInFlight shuffle.file.buffer""",
    _TIME: """network.timeout executor.heartbeatInterval rpc.askTimeout locality.wait files.fetchTimeout
        dynamicAllocation.executorIdleTimeout dynamicAllocation.schedulerBacklogTimeout""",
    _COUNT: """cores.max driver.cores executor.cores task.cpus task.maxFailures default.parallelism
        sql.shuffle.partitions""",
    _COUNT_OR_NONE: """executor.instances dynamicAllocation.minExecutors dynamicAllocation.maxExecutors
        dynamicAllocation.initialExecutors port.maxRetries""",
    _SWITCH: """dynamicAllocation.enabled dynamicAllocation.shuffleTracking.enabled shuffle.service.enabled ui.enabled
        eventLog.enabled eventLog.compress memory.offHeap.enabled shuffle.compress rdd.compress speculation authenticate
        network.crypto.enabled ssl.enabled sql.adaptive.enabled sql.execution.arrow.pyspark.enabled""",
    # Known, so that none of them is taken for another one misspelt.
    _TEXT: """app.name master driver.host driver.bindAddress driver.port driver.blockManager.port driver.extraClassPath
        driver.extraJavaOptions driver.extraLibraryPath driver.defaultJavaOptions driver.memoryOverheadFactor
        driver.minMemoryOverhead executor.extraClassPath executor.extraJavaOptions executor.extraLibraryPath
        executor.defaultJavaOptions executor.memoryOverheadFactor executor.minMemoryOverhead blockManager.port ui.port
        local.dir jars jars.packages jars.repositories jars.excludes files archives submit.pyFiles submit.deployMode
        serializer eventLog.dir redaction.regex log.level sql.extensions sql.warehouse.dir sql.session.timeZone
        sql.timestampType sql.autoBroadcastJoinThreshold driver.defaultExtraClassPath executor.defaultExtraClassPath
        dynamicAllocation.cachedExecutorIdleTimeout dynamicAllocation.sustainedSchedulerBacklogTimeout
        reducer.maxReqsInFlight""",
}
_KNOWN = {f"spark.{name}": kind for kind, names in _OF_KIND.items() for name in names.split()}
_CLOSE = 0.8


def trouble_with(name: str, value: str) -> str | None:
    """Why Spark could do nothing with a setting, as far as that is known here; None if it may be right."""
    if name not in _KNOWN:
        meant = _meant(name)
        return None if meant is None else f"Spark has no setting {name!r}. Did you mean {meant!r}?"
    pattern, what = _KINDS[_KNOWN[name]]
    return None if pattern.fullmatch(value.strip()) else f"{name!r} = {value!r} is not {what}."


def _meant(name: str) -> str | None:
    words = name.split(".")
    for known in _KNOWN:
        parts = known.split(".")
        if len(parts) == len(words):
            other = [(word, part) for word, part in zip(words, parts, strict=True) if word != part]
            if len(other) == 1 and _is_close(*other[0]):
                return known
    return None


def _is_close(word: str, part: str) -> bool:
    return difflib.SequenceMatcher(None, word.lower(), part.lower()).ratio() >= _CLOSE
