"""What passes between the model and a store: plain, frozen records."""
