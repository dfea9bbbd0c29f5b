"""The only folder that imports pyspark: session, data source, staged answers, running queries."""
