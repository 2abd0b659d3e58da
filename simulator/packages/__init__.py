"""A package repository that plays the vendor's: real packages, real indices, a real signature, emulated contents."""
