"""A campaign that broke a guarantee, repeated with less and less, until nothing can go."""
