"""The pipeline of this platform: what a user of the template changes. Start with `definitions.py`."""
