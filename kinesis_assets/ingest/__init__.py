"""One run: plan, read and write in Spark, commit."""
