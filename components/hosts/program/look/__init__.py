"""A host as an inventory has it: only read, without a document, each value with its source or why there is none."""
