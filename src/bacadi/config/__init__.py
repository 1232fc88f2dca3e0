"""Configuration: choices as plain tables and back, the one table of names, and presets as TOML files."""
