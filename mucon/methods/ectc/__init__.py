"""ECTC: the likelihood of a transcript over all its alignments, weighted by the similarity of neighbouring frames."""
