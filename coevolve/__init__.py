"""The toolkit: records, environments, models, and the stages between them."""

__version__ = "0.1.0"
