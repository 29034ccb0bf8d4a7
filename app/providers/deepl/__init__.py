"""DeepL: its SDK made bounded, its errors told apart, its limits counted."""
