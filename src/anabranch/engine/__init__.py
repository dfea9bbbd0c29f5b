"""What runs standing queries, whatever it is: Spark, or what stands in its place in tests."""
