"""SQL text to a syntax tree that knows where each part was written, and bound queries back to text."""
