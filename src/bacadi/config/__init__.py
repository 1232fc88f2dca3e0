"""Configuration: choices as plain tables and back, the one table of names, and presets as TOML files."""

from bacadi.config.codec import decode, encode
from bacadi.config.layers import Configuration, configure

__all__ = ["Configuration", "configure", "decode", "encode"]
