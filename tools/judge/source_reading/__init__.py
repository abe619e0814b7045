"""A candidate's text, read by an allow-list: what it does besides computing is named, never refused."""
