"""`datassay bench DATA`: whether scores predict retraining."""
