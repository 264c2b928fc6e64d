"""What tests share, by package."""
