"""The parts of `CausalLM`. None of these modules imports PyTorch before it is asked to load a model."""
