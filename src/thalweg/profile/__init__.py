"""Who watches: samples, selectivities, costs, change."""
