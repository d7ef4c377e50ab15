"""The lineage browser: the history of all tables at once, and what every snapshot was made from, as pages.

It reads tables and lineage through their front doors. What flows: `facts` → `history` → `lanes` → `svg` → `pages`.
"""
