"""The tests, in folders that mirror the source; shared parts are imported as `tests.x`."""
