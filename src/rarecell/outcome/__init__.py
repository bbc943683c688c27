"""What a run found, as values: the typed contents of ``summary.json`` and the words for its numbers."""
