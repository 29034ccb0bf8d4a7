"""What meta-evaluation keeps, in SQL: one module for each port, and a class that is all of them."""
