"""File indexes: what a data file holds of single columns, so that a reader with a filter can leave the file alone.

Follows `docs/format.md`, "File indexes". Bytes are those of Paimon's Java library; bitmaps are Roaring bitmaps in the
portable form, of row numbers in the data file, from 0.
"""
