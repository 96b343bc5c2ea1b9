"""What was spent: the ledger of attempts, what each cost, and what lies behind a dataset."""
