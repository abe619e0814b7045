"""The emitted file: how it is written, reviewed and applied. Judging it again is `loop.emitted.recheck`."""
