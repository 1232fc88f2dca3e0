"""The commands of the command line, one module each; their heavy imports stand inside functions."""
