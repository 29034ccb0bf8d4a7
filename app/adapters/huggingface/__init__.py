"""What `BertScoreEncoder` and `CausalLM` share: models of the Hugging Face hub, loaded and used in a thread. None of
these modules imports PyTorch before it is asked to load one."""
