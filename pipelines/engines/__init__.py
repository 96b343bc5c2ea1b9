"""Where shard tasks run. A task is described once and every engine gives the same bytes."""
