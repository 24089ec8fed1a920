"""Who may plug in: what policies, tuners, monitors and operators give and get."""
