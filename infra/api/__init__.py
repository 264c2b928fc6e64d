"""The interface of infra: protocols and data types that other rooms use."""
