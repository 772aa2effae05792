"""ONE UNIT, IN A WORKER: settle the seat, seed, run the task, pack what became of it."""
