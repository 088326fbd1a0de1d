"""Pretraining of BERT-family encoders on TPUs in JAX."""

__version__ = "0.1.0"
