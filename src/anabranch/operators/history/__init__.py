"""How queries over live and past rows work inside."""
