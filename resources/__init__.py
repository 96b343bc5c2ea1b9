"""What assets are given: settings, datasets, engine, meter, prices, launcher."""
