"""What a row can visit: filters, and stems with the checks on what they find."""
