"""What runs inside the sandbox. Of the rest it imports only what it shares with the examiner."""
