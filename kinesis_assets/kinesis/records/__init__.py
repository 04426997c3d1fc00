"""Records: from a response of the service to Arrow columns."""
