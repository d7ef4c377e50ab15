"""Formats of messages: the bytes of a record's key or value ↔ rows in Arrow, with the kinds of the rows and the metadata of the
message. `registry.message_format` makes one by its name.
"""
