"""Tables of which every row is one kind of a thing: types, probes, rejection codes, formats."""
