"""Records: from the response to Arrow."""
