"""The sections of the report, one module or package each; every one of them has a function `section`."""
