"""How each part of a plan is run, read and judged.

What a part measures is a field of the record. `judge_…` makes its tests, `…_findings` says where
faults lie, and `…_reasons` why it is no pass; `verdict.py` puts those of all parts together.
"""
