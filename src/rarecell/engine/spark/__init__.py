"""Tables that Spark holds on many machines."""
