"""The asset checks of raw and derived tables."""
