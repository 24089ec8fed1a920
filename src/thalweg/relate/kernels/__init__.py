"""The compiled loops over changes. Each has a plain twin in the tests."""
