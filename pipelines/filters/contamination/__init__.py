"""What documents share with evaluation sets, and what becomes of such documents."""
