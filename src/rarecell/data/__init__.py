"""From columns to levels: what each column means, and the table that the keys form."""
