"""Where a value came from: watermarks, altered stores, and forwards done once more on other values."""
