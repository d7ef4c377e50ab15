"""Options of the metadata by which readers of Iceberg see a table."""

from dataclasses import dataclass

from .option_declaration import Options, option


@dataclass(frozen=True, kw_only=True)
class IcebergOptions(Options):
    """The options `metadata.iceberg.*`, which `storage/iceberg` follows."""

    metadata_iceberg_storage: str = option(
        "metadata.iceberg.storage",
        "disabled",
        "Where metadata are written after each commit by which readers of Iceberg see the table: `table-location` "
        "(`metadata` in the table's directory), `hadoop-catalog` (`iceberg/<database>/<table>/metadata` in the warehouse, an "
        "Iceberg catalog of Hadoop's kind), or `disabled`. Of a table with a primary key they see what is fully compacted.",
    )
    metadata_iceberg_storage_location: str | None = option(
        "metadata.iceberg.storage-location",
        None,
        "`table-location` or `catalog-location`. Default: as `metadata.iceberg.storage` says.",
        choices="table-location catalog-location",
    )
    metadata_iceberg_format_version: int = option(
        "metadata.iceberg.format-version", "2", "Version of Iceberg's format: 2.", "whole number"
    )
    metadata_iceberg_delete_after_commit_enabled: bool = option(
        "metadata.iceberg.delete-after-commit.enabled",
        "true",
        "Older versions of Iceberg metadata are deleted with each commit.",
        "true or false",
    )
    metadata_iceberg_previous_versions_max: int = option(
        "metadata.iceberg.previous-versions-max",
        "0",
        "Older versions of Iceberg metadata that are kept then.",
        "whole number",
        least=0,
    )
    metadata_iceberg_compaction_min_file_num: int = option(
        "metadata.iceberg.compaction.min.file-num",
        "10",
        "Merge small manifests of Iceberg metadata from this number on, once they make up `manifest.target-file-size`.",
        "whole number",
        least=1,
    )
    metadata_iceberg_compaction_max_file_num: int = option(
        "metadata.iceberg.compaction.max.file-num",
        "50",
        "Merge small manifests of Iceberg metadata from this number on, whatever their size.",
        "whole number",
        least=1,
    )
    metadata_iceberg_manifest_compression: str = option(
        "metadata.iceberg.manifest-compression",
        "snappy",
        "Compression of Iceberg manifests: `snappy`, `zstd`, `zstandard`, `deflate` or `null`.",
        choices="snappy zstd zstandard deflate null",
    )
    metadata_iceberg_manifest_legacy_version: bool = option(
        "metadata.iceberg.manifest-legacy-version",
        "false",
        "Lists of Iceberg manifests name their fields as Iceberg did up to 1.4.",
        "true or false",
    )
