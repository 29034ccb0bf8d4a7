"""What the lexical judge is made of: readers (a text into a profile), features, weights, ratings, reasons."""
