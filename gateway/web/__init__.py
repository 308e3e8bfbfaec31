"""The pages of the data plane: keys and the playground."""
