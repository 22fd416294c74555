"""The version of the package, which reports and saved results bear."""

VERSION = "0.1.0"
