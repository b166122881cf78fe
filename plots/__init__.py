"""Pictures, tables and pages from records. Each module here is a command: `python -m plots.draw`, for example."""
