"""Hardware requests in settings: parsed and checked, independent of AWS's offers."""
