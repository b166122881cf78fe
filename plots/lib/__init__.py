"""What figures and commands share: records, their checks, statistics, descriptions of sources, and the style."""
