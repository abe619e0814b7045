"""What only a GPU can tell, found in the first thirty minutes that one is at hand."""

from __future__ import annotations
