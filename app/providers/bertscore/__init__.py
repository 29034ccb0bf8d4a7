"""The parts of `BertScoreEncoder`. None of these modules imports PyTorch before it is asked to load an encoder."""
