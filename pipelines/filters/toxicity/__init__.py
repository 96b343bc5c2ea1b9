"""How likely documents are toxic: a cascade of scorers, from a linear screen to neural models and people's services."""
