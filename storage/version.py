"""The version of Snapline, from which the package takes its own."""

VERSION = "0.1.0"
