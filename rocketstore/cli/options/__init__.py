"""Options and arguments that several commands share. What their callbacks need is imported when they run."""
