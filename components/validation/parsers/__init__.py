"""Text of benchmark tools into numbers, or a reason why not. Pure."""
