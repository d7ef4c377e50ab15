"""Tables that are topics of Kafka: definition, options, metadata columns, reading and writing. The client is imported when a
topic is read or written, and not before.
"""
