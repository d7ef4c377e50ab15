"""Actions of installed packages: modules that entry points of the group `snapline.actions` name, which register theirs."""

from importlib.metadata import entry_points

from storage import InvalidRequest

ENTRY_POINT_GROUP = "snapline.actions"


def load_extensions() -> None:
    """Import what installed packages add. Raises InvalidRequest that names the package of a module that cannot be imported."""
    for extension in entry_points(group=ENTRY_POINT_GROUP):
        try:
            extension.load()
        except Exception as error:
            package = extension.dist.name if extension.dist else extension.value
            raise InvalidRequest(
                f"The actions {extension.name!r} of package {package} cannot be loaded: {error}. Mend or uninstall the package."
            ) from error
