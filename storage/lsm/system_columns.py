"""The columns that data files of tables with a key hold beside the table's own."""

SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
VALUE_KIND = "_VALUE_KIND"
# In memory only: the level of the file that a row comes from, of a merged row the lowest of its key.
LEVEL = "_LEVEL"
# In memory only: whether a row above level 0 was made of all rows of its key on the levels above its own, too.
WHOLE = "_WHOLE"
# In memory only: which file a row comes from, by a number that its reader gives, and its place among the rows of that file.
FILE = "_SNAPLINE_FILE"
POSITION = "_SNAPLINE_POSITION"
# Values of `_VALUE_KIND`: +I -U +U -D.
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = 0, 1, 2, 3
# The same as text, in the order of their values.
KINDS = ("+I", "-U", "+U", "-D")
