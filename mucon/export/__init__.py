"""A trained model as a folder for others: weights, card, scores and checksums; as ONNX; as programs of torch.export."""
