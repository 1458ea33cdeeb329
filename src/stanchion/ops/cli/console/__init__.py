"""What all commands share: options, output and the app they act on."""
