"""Sections of the host document, one file per topic: pure functions of the lab."""
