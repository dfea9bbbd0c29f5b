"""What a query may touch and say, whatever it is planned as."""
