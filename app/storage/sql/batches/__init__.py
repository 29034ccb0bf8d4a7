"""`BatchStore` in SQL: one module for each thing that is done to a batch, and a class that is all of them."""
