"""Rules over Japanese and Korean text: suspected attacks, language, register and honorifics."""
