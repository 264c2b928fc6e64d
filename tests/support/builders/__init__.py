"""Histories, results and other inputs, made by hand or by chance."""
