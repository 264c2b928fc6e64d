"""The admin commands, which any broker runs (seed 001, "Admin commands"): generators of steps."""
