"""Our own cartridges: each an assembler source and the image it assembles to (a test compares the two)."""
