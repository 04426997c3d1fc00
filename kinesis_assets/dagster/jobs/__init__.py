"""Jobs that a person starts, beside the runs that the sensor asks for."""
