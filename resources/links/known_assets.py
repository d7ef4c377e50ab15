"""Which assets Dagster has: only those are linked to."""

import logging
from collections.abc import Callable, Collection
from threading import Lock, Thread

from ..code_location import platform_definitions

Key = tuple[str, ...]
_log = logging.getLogger(__name__)


class KnownAssets:
    """The assets of the platform's definitions, which are loaded once: that takes seconds. `keys`: where they are asked for
    instead, each time.
    """

    def __init__(self, keys: Callable[[], Collection[Key]] | None = None) -> None:
        self._ask = keys
        self._lock = Lock()
        self._keys: frozenset[Key] | None = None
        self._is_loaded = False

    def load_beside(self) -> None:
        """Load them in a thread, before anybody asks."""
        if self._ask is None:
            Thread(target=self._load, daemon=True).start()

    def has(self, *key: str) -> bool:
        """Whether there is an asset of a key; there might be any if they cannot be loaded."""
        try:
            keys = self._load() if self._ask is None else self._ask()
        except Exception as error:
            _log.warning("Dagster's assets are not known: %s", error)
            return True
        return keys is None or key in keys

    def _load(self) -> frozenset[Key] | None:
        with self._lock:
            if not self._is_loaded:
                try:
                    graph = platform_definitions().resolve_asset_graph()
                    self._keys = frozenset(tuple(key.path) for key in graph.get_all_asset_keys())
                except Exception as error:
                    # They are anybody's code.
                    _log.warning("The definitions of the platform cannot be loaded: %s", error)
                self._is_loaded = True
            return self._keys
