"""The answers of a writer's tools in words."""
